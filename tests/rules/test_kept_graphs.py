"""Of programs that keep what their steps compute, the check says what torch shows: saved tensors, nodes, or nothing."""

from __future__ import annotations

from itertools import cycle

import pytest
from kept_graphs import Program, programs, what_is_kept
from rule_harness import Example

from drygrad.settings import Settings
from drygrad.static.engine import Analyzer
from drygrad.static.source import Source

CODES = ("DG501", "DG502")
LEFT_OUT = frozenset({"best", "unknown"})
"""An owner of which torch tells now this and now that; a form of which the text does not tell that it has a graph."""
MISSED = ("moved", "switched_off")
"""``loss.cpu()`` is loss itself on a CPU, graph and all, also where gradients are switched off."""


def _said(program: Program) -> str:
    analysis = Analyzer(Settings(select=CODES)).check(Source(program.text))
    gravest = {finding.severity for finding in analysis.findings}
    return "graphs" if "warning" in gravest else "nodes" if gravest else "nothing"


def _some() -> list[Program]:
    """Return programs of each owner: those of all values, in turn with their forms and backwards."""
    kinds: dict[str, list[Program]] = {}
    for program in programs():
        if not {program.form, program.owner} & LEFT_OUT and (program.value, program.backward) != MISSED:
            kinds.setdefault(program.owner, []).append(program)
    strides = cycle((79, 83, 89, 97))
    return [program for kind in kinds.values() for program in kind[:: next(strides)]]


def test_what_is_said_is_what_torch_keeps() -> None:
    some = _some()
    kept = [(what_is_kept(program.text), program) for program in some]
    assert {truth for truth, _ in kept} == {"graphs", "nodes", "nothing"}
    wrong = [f"{truth}, not {_said(program)}: {program}" for truth, program in kept if truth != _said(program)]
    assert wrong == []


GRADIENT = """
def attack(model, x, y, total=0.0):
    x.requires_grad_()
    for _ in range(500):
        loss = F.cross_entropy(model(x), y)
        (g,) = torch.autograd.grad(loss, x{})
        x.data.add_(g.sign(), alpha=0.01)
        total = total + loss{}
    return total
"""
REPLAY = """
from collections import deque

memory = deque(maxlen={})
net = nn.Linear(4, 2)

def play(env, state):
    for _ in range(1000):
        scores = net(state)
        state = env.step(scores.argmax().item())
        memory.append((state, scores))
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GRADIENT.format("", ""), "DG502 info"),
        (GRADIENT.format("", ".detach()"), ""),
        (GRADIENT.format(", create_graph=True", ""), ""),
        (REPLAY.format("100_000"), "DG501 warning"),
        (REPLAY.format("16"), ""),
    ],
    ids=["gradient", "gradient detached", "gradient of a gradient", "replay buffer", "window"],
)
def test_what_frees_and_what_keeps(text: str, expected: str) -> None:
    found = {f"{f.code} {f.severity}" for f in Example.of(text).findings() if f.code in CODES}
    assert " ".join(found) == expected
