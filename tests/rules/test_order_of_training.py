"""One training, written in several ways, right and with one fault: the rules say the same of each.

That each fault is one, and that the right form has none, was found by running these programs on torch with its
optimizers, modules and ``backward`` told to note what happens.
"""

from __future__ import annotations

from textwrap import indent

import pytest
from rule_harness import Example

HEAD = """
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU())
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.body(x))


"""
MAKE = (
    "f = Net()\no = torch.optim.SGD(f.parameters(), lr=0.1, momentum=0.9)\np = torch.optim.lr_scheduler.StepLR(o, 1)\n"
)
STEPS = {
    "clear": "o.zero_grad()\n",
    "forward": "e = F.cross_entropy(f(a), b)\n",
    "backward": "e.backward()\n",
    "clip": "nn.utils.clip_grad_norm_(f.parameters(), 1.0)\n",
    "step": "o.step()\n",
}
HELPERS = {
    "clear": "def reset(tuner):\n    tuner.zero_grad()\n\n\n",
    "backward": "def differentiate(value):\n    value.backward()\n\n\n",
    "clip": "def limit(brain):\n    nn.utils.clip_grad_norm_(brain.parameters(), 1.0)\n\n\n",
    "step": "def advance(tuner):\n    tuner.step()\n\n\n",
}
CALLS = {"clear": "reset(o)\n", "backward": "differentiate(e)\n", "clip": "limit(f)\n", "step": "advance(o)\n"}
RIGHT = ("clear", "forward", "backward", "clip", "step")
BATCHES = {
    "cleared never": ("forward", "backward", "clip", "step"),
    "cleared before step": ("forward", "backward", "clear", "step"),
    "step missing": ("clear", "forward", "backward"),
    "step behind": ("clear", "forward", "backward"),
    "step early": ("clear", "step", "forward", "backward"),
    "clip early": ("clear", "forward", "clip", "backward", "step"),
    "clip late": ("clear", "forward", "backward", "step", "clip"),
}
FAULTS = {
    "none": None,
    "cleared never": "DG703",
    "cleared before step": "DG708",
    "step missing": "DG702",
    "step behind": "DG704",
    "step early": "DG701",
    "clip early": "DG716",
    "clip late": "DG716",
    "no eval": "DG712",
    "no train": "DG710",
    "schedule early": "DG709",
    "another model": "DG738",
    "frozen": "DG738",
}


def made(fault: str) -> str:
    match fault:
        case "another model":
            return f"{MAKE}f = Net()\n"
        case "frozen":
            frozen = "for w in f.body.parameters():\n    w.requires_grad = False\n"
            return MAKE.replace("o = ", f"{frozen}o = ").replace("SGD(f.", "SGD(f.body.")
        case _:
            return MAKE


def batch(fault: str, steps: dict[str, str] = STEPS) -> str:
    return "".join(steps[step] for step in BATCHES.get(fault, RIGHT))


def epoch(fault: str, trained: str, scored: str) -> str:
    """Return one epoch: the training, the schedule and the evaluation, given as statements."""
    schedule = ("p.step()\n", "") if fault == "schedule early" else ("", "p.step()\n")
    behind = "o.step()\n" if fault == "step behind" else ""
    mode = "" if fault == "no train" else "f.train()\n"
    return mode + schedule[0] + trained + behind + schedule[1] + scored


def score(fault: str) -> str:
    mode = "" if fault == "no eval" else "f.eval()\n"
    return f"{mode}with torch.no_grad():\n    for a, b in data:\n        print(f(a).argmax(1) == b)\n"


def under(head: str, body: str) -> str:
    return f"{head}\n{indent(body, '    ')}"


def script(fault: str) -> str:
    turn = epoch(fault, under("for a, b in data:", batch(fault)), score(fault))
    return made(fault) + under("for turn in range(3):", turn)


def function(fault: str) -> str:
    turn = epoch(fault, under("for a, b in data:", batch(fault)), score(fault))
    fit = under("def fit(f, o, p, data):", under("for turn in range(3):", turn))
    return f"{fit}\n\n{made(fault)}fit(f, o, p, data)\n"


def helpers(fault: str) -> str:
    turn = epoch(fault, under("for a, b in data:", batch(fault, STEPS | CALLS)), score(fault))
    used = "".join(HELPERS[step] for step in BATCHES.get(fault, RIGHT) if step in HELPERS)
    return used + made(fault) + under("for turn in range(3):", turn)


def trainer(fault: str) -> str:
    def own(text: str) -> str:
        for name in "fop":
            for before in " (\n":
                text = text.replace(f"{before}{name}.", f"{before}self.{name}.").replace(
                    f"{before}{name}(", f"{before}self.{name}("
                )
        return text.removeprefix("\n")

    one = under("def one(self, a, b):", own("\n" + batch(fault)))
    evaluate = under("def score(self, data):", own("\n" + score(fault)))
    turn = own("\n" + epoch(fault, "for a, b in data:\n    self.one(a, b)\n", "self.score(data)\n"))
    run = under("def run(self, data):", under("for turn in range(3):", turn))
    init = under("def __init__(self, f, o, p):", "self.f, self.o, self.p = f, o, p\n")
    return f"{under('class Coach:', init + one + evaluate + run)}\n\n{made(fault)}Coach(f, o, p).run(data)\n"


def unknown(fault: str) -> str:
    """The same by a function that nobody calls, in a dict: only what is done with each thing tells what it is."""
    turn = "\n" + epoch(fault, under("for a, b in data:", batch(fault)), score(fault)) + "print(p.get_last_lr())\n"
    for name in "fo":
        for before in " (\n":
            for after in ".(":
                turn = turn.replace(f"{before}{name}{after}", f"{before}box['{name}']{after}")
    return under("def fit(box, p, data):", under("for turn in range(3):", turn))


STYLES = {"script": script, "function": function, "helpers": helpers, "trainer": trainer}


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("fault", FAULTS)
def test_each_spelling_of_a_fault_is_found_and_nothing_else(style: str, fault: str) -> None:
    text = HEAD + STYLES[style](fault)
    found = {f.code for f in Example.of(text, None).findings() if f.severity in ("error", "warning")}
    assert found == ({FAULTS[fault]} if FAULTS[fault] else set())


@pytest.mark.parametrize(
    "fault", ["none", "cleared before step", "step behind", "step early", "clip early", "clip late", "no train"]
)
def test_roles_come_from_uses_where_nothing_else_tells(fault: str) -> None:
    found = {f.code for f in Example.of(HEAD + unknown(fault), None).findings() if f.severity in ("error", "warning")}
    assert found == ({FAULTS[fault]} if FAULTS[fault] else set())


def test_a_finding_that_rests_on_a_name_says_so() -> None:
    text = "def fit(optimizer, data):\n    for a in data:\n        optimizer.zero_grad()\n        a.sum().backward()\n"
    (finding,) = Example.of(text, None).findings()
    assert finding.code == "DG702"
    assert finding.detail == "optimizer is taken for what its name says: nothing else here tells what it is"
    (finding,) = Example.of(
        text.replace("(optimizer, data):", "(w, data):\n    optimizer = torch.optim.SGD(w)")
    ).findings()
    assert finding.detail is None
