"""The comment that a run's inputs are written as: it can stand above the function, and gives the same inputs."""

from __future__ import annotations

from pathlib import Path

import pytest
from plan_harness import source_of
from worker_client import WorkerClient

from drygrad.dryrun.findings import findings
from drygrad.dryrun.inputs.callers import Caller
from drygrad.dryrun.plan import Missing, Plan, RunOptions
from drygrad.dryrun.planning import plan_runs
from drygrad.dryrun.result import Result
from drygrad.dryrun.targets import target_named
from drygrad.dryrun.written_inputs import comment_text
from drygrad.settings import Settings

MODEL = """\
import torch, numpy as np
from torch import nn

WIDTH = 6

class Net(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.fc = nn.Linear(n, 3)

    def forward(self, x, scale=1.0):
        y = self.fc(x)
        z = y.exp()
        z += scale
        return z

def loss(a, b):
    return (a - b).pow(2).mean()
"""

IN_FILE: dict[str, tuple[str, str, str]] = {
    "names of the file": ("net = Net(WIDTH)\nx = torch.ones(2, WIDTH)\nnet(x)", "Net.forward", "self=net, x=x"),
    "names of a function": (
        "def main():\n    n = 4\n    net = Net(n).to('cpu')\n    net.eval()\n"
        "    x = torch.ones(2, n)\n    net(x, 2.0)\nmain()",
        "Net.forward",
        "self=Net(4).to('cpu').eval(), x=torch.ones(2, 4), scale=2.0",
    ),
    "a loop": (
        "net = Net(4)\nfor x in [torch.ones(3, 4)]:\n    net(x)",
        "Net.forward",
        "self=net, x=next(iter([torch.ones(3, 4)]))",
    ),
    "what is changed on the way": (
        "def main():\n    a = torch.ones(3)\n    a[0] = 2\n    i = torch.zeros(2, 3, dtype=torch.int64)\n    i[0] = 1\n"
        "    loss(a, i)\nmain()",
        "loss",
        "a=torch.randn(3), b=torch.randint(0, 2, (2, 3))",
    ),
    "a name that means another thing later": (
        "x = torch.ones(3)\nloss(x, 1)\nx = 'text'",
        "loss",
        "a=torch.ones(3), b=1",
    ),
    "unpacked": ("loss(*torch.ones(2, 3))", "loss", "*torch.ones(2, 3)"),
    "a docstring": ("", "documented", "x=torch.ones(2)"),
    "nothing needed": ("", "easy", ""),
    "an optimizer of the model beside it": (
        "def main():\n    net = Net(4)\n    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n    net.train()\n"
        "    step(optimizer, net, torch.ones(2, 4))\nmain()",
        "step",
        "net=Net(4).train(), optimizer=torch.optim.SGD(net.parameters(), lr=0.1), x=torch.ones(2, 4)",
    ),
    "an object that holds both": (
        "def main():\n    model = Net(4)\n    t = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1))\n"
        "    t.step(torch.ones(2, 4))\nmain()",
        "Trainer.step",
        "self=Trainer((model := Net(4)), torch.optim.SGD(model.parameters(), lr=0.1)), x=torch.ones(2, 4)",
    ),
    "an object, and a part of it": (
        "def main():\n    x = Net(4)\n    t = Trainer(x, torch.optim.SGD(x.parameters(), lr=0.1))\n"
        "    step(t.optimizer, t.model, torch.ones(2, 4))\nmain()",
        "step",
        "optimizer=(t := Trainer((x_ := Net(4)), torch.optim.SGD(x_.parameters(), lr=0.1))).optimizer, net=t.model,"
        " x=torch.ones(2, 4)",
    ),
    "the same object twice": ("t = torch.rand(3)\nloss(t, t)", "loss", "a=t, b=t"),
    "a function's object twice": (
        "def main():\n    t = torch.rand(3)\n    loss(t, t)\nmain()", "loss", "a=torch.rand(3), b=a",
    ),
    "what is named where it may not be": (
        "def main():\n    t = torch.rand(3)\n    loss(t.mean() if WIDTH else t, t.sum() if WIDTH else t)\nmain()",
        "loss",
        "a=torch.rand(3).mean() if WIDTH else torch.rand(3), b=torch.rand(3).sum() if WIDTH else torch.rand(3)",
    ),
}  # fmt: skip
MORE = """\
def documented(x):
    '''
    >>> y = torch.ones(2)
    >>> documented(y)
    '''
    return x

def easy(n=3):
    return n

def step(optimizer, net, x):
    optimizer.zero_grad()
    net(x).sum().backward()
    optimizer.step()

class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def step(self, x):
        step(self.optimizer, self.model, x)
"""


def plan_of(folder: Path, text: str, qualname: str, callers: tuple[Caller, ...] = ()) -> Plan:
    source = source_of(text)
    target = target_named(source, qualname)
    assert target is not None
    plans = plan_runs(source, folder / "model.py", target, RunOptions(device="cpu", root=folder, callers=callers))
    assert not isinstance(plans, Missing), plans.message
    return plans[0]


def ran(worker: WorkerClient, plan: Plan) -> tuple[Result, list[tuple[str, int]]]:
    result = Result.read(worker.run(plan.as_json()))
    assert result.outcome in ("passed", "failed"), (result.error, result.notes)
    found = findings(result, plan, plan.source, Settings())
    return result, [(finding.code, finding.span.start.line) for finding in found]


def comes_back(worker: WorkerClient, plan: Plan, folder: Path) -> str:
    """Write a run's inputs as a comment; return it if it gives the same inputs, and the same findings."""
    result, found = ran(worker, plan)
    comment = comment_text(plan, result)
    line = plan.target.span.start.line
    lines = plan.source.text.splitlines(keepends=True)
    text = "".join([*lines[: line - 1], f"{plan.source.indentation(line)}{comment}\n", *lines[line - 1 :]])
    again, found_again = ran(worker, plan_of(folder, text, str(plan.target.qualname)))
    assert described(again) == described(result)
    assert found_again == [(code, at + (at >= line)) for code, at in found]
    return comment.removeprefix("# dry-run: ")


def described(result: Result) -> list[tuple[str, str]]:
    return sorted((given.name, given.value) for given in result.inputs)


@pytest.mark.parametrize(("call", "qualname", "expected"), IN_FILE.values(), ids=IN_FILE.keys())
def test_inputs_of_the_file(call: str, qualname: str, expected: str, worker: WorkerClient, tmp_path: Path) -> None:
    plan = plan_of(tmp_path, f"{MODEL}\n{MORE}\n{call}\n", qualname)
    assert comes_back(worker, plan, tmp_path) == expected


ELSEWHERE: dict[str, tuple[str, str]] = {
    "from model import Net, WIDTH\nfrom torch import nn\nimport torch.nn.functional as F\nn = WIDTH\nnet = Net(n)\n"
    "net(F.relu(torch.ones(2, n)))": (
        "Net.forward", "self=Net(WIDTH), x=torch.nn.functional.relu(torch.ones(2, WIDTH))",
    ),
    "import model as m\nm.Net(m.WIDTH)(torch.ones(m.WIDTH))": ("Net.forward", "self=Net(WIDTH), x=torch.ones(WIDTH)"),
    "from model import Net as Model\nModel(4)(torch.ones(4))": ("Net.forward", "self=Net(4), x=torch.ones(4)"),
    "from model import Net\nimport numpy as np\nNet(4)(torch.from_numpy(np.ones((2, 4), 'float32')))": (
        "Net.forward", "self=Net(4), x=torch.randn(2, 4)",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), ELSEWHERE.items())
def test_inputs_of_another_file(text: str, expected: tuple[str, str], worker: WorkerClient, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    names = ("Net", "m.Net", "Model")
    caller = Caller(tmp_path / "script.py", "script.py", source_of(f"import torch\n{text}\n"), names, "model")
    plan = plan_of(tmp_path, MODEL, expected[0], (caller,))
    assert plan.elsewhere is not None
    assert comes_back(worker, plan, tmp_path) == expected[1]


def test_what_cannot_be_said_is_left_to_the_user(worker: WorkerClient, tmp_path: Path) -> None:
    text = "class Box: ...\ndef f(box):\n    return box\n\ndef main():\n    b = Box()\n    b.x = 1\n    f(b)\nmain()\n"
    plan = plan_of(tmp_path, text, "f")
    assert comment_text(plan, ran(worker, plan)[0]) == "# dry-run: box=..."


def test_a_comment_is_written_as_it_was_given(worker: WorkerClient, tmp_path: Path) -> None:
    given = "optimizer=torch.optim.SGD((n := Net(4)).parameters(), lr=0.1), net=n, x=torch.ones(2, 4)"
    text = f"{MODEL}\n{MORE}"
    target = target_named(source_of(text), "step")
    assert target is not None
    options = RunOptions(device="cpu", root=tmp_path, inputs=given)
    plans = plan_runs(source_of(text), tmp_path / "model.py", target, options)
    assert not isinstance(plans, Missing), plans.message
    assert comes_back(worker, plans[0], tmp_path) == given
