"""Inputs from calls in other files: tests with their fixtures and parameters, scripts; and when they cannot be made."""

from __future__ import annotations

import ast
import asyncio
import sys
from pathlib import Path

import pytest
from plan_harness import source_of
from worker_client import WorkerClient

from drygrad.dryrun.findings import findings
from drygrad.dryrun.inputs.callers import Caller
from drygrad.dryrun.merge import Record
from drygrad.dryrun.plan import Missing, Plan, RunOptions
from drygrad.dryrun.planning import plan_runs
from drygrad.dryrun.result import Result
from drygrad.dryrun.service import DryRuns, Home
from drygrad.dryrun.slicing import Bind
from drygrad.dryrun.targets import target_named
from drygrad.settings import Settings

MODEL = """\
import torch
from torch import nn

WIDTH = 6

class Net(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.fc = nn.Linear(n, 3)

    def forward(self, x, scale=1.0):
        y = self.fc(x)
        y = y.exp()
        return y * scale

def loss(a, b):
    return (a - b).pow(2).mean()
"""


def planned(folder: Path, text: str, qualname: str, names: tuple[str, ...]) -> list[Plan] | Missing:
    caller = Caller(folder / "tests/test_model.py", "tests/test_model.py", source_of(text), names, "model")
    source = source_of(MODEL)
    target = target_named(source, qualname)
    assert target is not None
    options = RunOptions(device="cpu", root=folder, search_seconds=0, callers=(caller,))
    return plan_runs(source, folder / "model.py", target, options)


def given(plan: Plan) -> list[str]:
    """Return what is bound for the call, and what it passes, as texts."""
    other = plan.elsewhere
    assert other is not None
    bound = [f"{step.target} = {step.text}" for step in other.steps if isinstance(step, Bind)]
    assigned = [other.caller.source.segment(step) for step in other.steps if isinstance(step, ast.Assign)]
    receiver = [plan.receiver.text] if plan.receiver else []
    return [*bound, *assigned, *receiver, *(argument.text for argument in plan.arguments)]


IMPORT = "import pytest, torch, unittest\nfrom model import Net, loss\nimport model\n"

CALLS: dict[str, tuple[str, list[str]]] = {
    "in a test": (
        "def test_it():\n    net = Net(4)\n    net(torch.ones(2, 4))",
        ["net = Net(4)", "net", "torch.ones(2, 4)"],
    ),
    "at once": ("def test_it():\n    Net(10)(torch.ones(2, 10))", ["Net(10)", "torch.ones(2, 10)"]),
    "behind some that do not fit": (
        "Net(4)()\nNet(5)(torch.ones(5), factor=2)\nNet(6)(torch.ones(6), scale=2)",
        ["Net(6)", "torch.ones(6)", "2"],
    ),
    "through the module": ("net = model.Net(4)\nnet(torch.ones(4))", ["net = model.Net(4)", "net", "torch.ones(4)"]),
    "in a main block": ("if __name__ == '__main__':\n    Net(4).forward(torch.ones(4))", ["Net(4)", "torch.ones(4)"]),
    "with parameters": (
        "@pytest.mark.parametrize('n, scale', [(4, 2.0), (5, 1)])\n"
        "def test_it(n, scale):\n    Net(n)(torch.ones(n), scale)",
        ["n, scale = (4, 2.0)", "Net(n)", "torch.ones(n)", "scale"],
    ),
    "with one parameter": (
        "@pytest.mark.parametrize('n', [pytest.param(4, id='four'), 5])\ndef test_it(n):\n    Net(n)(torch.ones(n))",
        ["n = 4", "Net(n)", "torch.ones(n)"],
    ),
    "with parameters that are computed": (
        "@pytest.mark.parametrize(['n'], zip(range(3, 9)))\ndef test_it(n):\n    Net(n)(torch.ones(n))",
        ["n, = next(iter(zip(range(3, 9))))", "Net(n)", "torch.ones(n)"],
    ),
    "with fixtures": (
        "@pytest.fixture(params=[4, 5])\ndef n(request):\n    return request.param\n"
        "@pytest.fixture\ndef net(n):\n    made = Net(n)\n    yield made\n    print('over')\n"
        "def test_it(net, n):\n    net.eval()\n    net(torch.ones(n))",
        ["request = __import__('types').SimpleNamespace(param=4)", "n = request.param", "net = made", "made = Net(n)",
         "net", "torch.ones(n)"],
    ),
    "in a class": (
        "class TestNet(unittest.TestCase):\n    def setUp(self):\n        self.net = Net(4)\n"
        "    def test_it(self):\n        self.net(torch.ones(4))",
        ["self = TestNet()", "self.net = Net(4)", "self.net", "torch.ones(4)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), CALLS.values(), ids=CALLS.keys())
def test_a_call_in_a_test_or_script(text: str, expected: list[str], worker: WorkerClient, tmp_path: Path) -> None:
    plans = planned(tmp_path, f"{IMPORT}\n{text}\n", "Net.forward", ("Net", "model.Net"))
    assert not isinstance(plans, Missing), plans.message
    assert given(plans[0]) == expected
    (tmp_path / "model.py").write_text(MODEL)
    result = Result.read(worker.run(plans[0].as_json()))
    assert (result.outcome, result.notes[2:]) == ("passed", ())
    (source,) = {i.source for i in result.inputs}
    file, _, line = source.partition(":")
    assert (file, "ones" in f"{IMPORT}\n{text}".splitlines()[int(line) - 1]) == ("call in tests/test_model.py", True)
    assert plans[0].input_sources == {"call"}
    assert findings(result, plans[0], plans[0].source, Settings()) == []


@pytest.mark.parametrize(
    "text",
    [
        "def test_it():\n    with pytest.raises(RuntimeError):\n        Net(4)(torch.ones(5))",
        "class TestIt(unittest.TestCase):\n    def test_it(self):\n        with self.assertRaises(RuntimeError):\n"
        "            Net(4)(torch.ones(5))",
        "@pytest.mark.xfail\ndef test_it():\n    Net(4)(torch.ones(5))",
        "@pytest.mark.skip\ndef test_it():\n    Net(4)(torch.ones(5))",
        "def test_it(unknown):\n    Net(4)(unknown)",
        "def helper(x):\n    Net(4)(x)",
        "async def test_it():\n    Net(4)(torch.ones(4))",
        "class Net: ...\nNet(4)(torch.ones(4))",
        "@pytest.fixture\ndef a():\n    n = 4\n    return n\n@pytest.fixture\ndef b():\n    n = 5\n    return n\n"
        "def test_it(a, b):\n    Net(a)(torch.ones(b))",
    ],
)  # fmt: skip
def test_a_call_that_gives_no_inputs(text: str, tmp_path: Path) -> None:
    assert isinstance(planned(tmp_path, f"{IMPORT}\n{text}\n", "Net.forward", ("Net",)), Missing)


def test_a_function_and_the_mode_that_a_test_calls_it_in(worker: WorkerClient, tmp_path: Path) -> None:
    test = "@torch.no_grad()\ndef test_it():\n    with torch.autocast('cpu'):\n        loss(*torch.ones(2, 3))\n"
    text = f"{IMPORT}\n{test}"
    plans = planned(tmp_path, text, "loss", ("loss",))
    assert not isinstance(plans, Missing)
    assert plans[0].contexts == ["torch.no_grad()", "torch.autocast('cpu')"]
    (tmp_path / "model.py").write_text(MODEL)
    assert Result.read(worker.run(plans[0].as_json())).outcome == "passed"


def test_the_key_changes_with_what_is_executed_of_the_other_file(tmp_path: Path) -> None:
    def key(text: str) -> str:
        plans = planned(tmp_path, IMPORT + text, "loss", ("loss",))
        assert not isinstance(plans, Missing)
        return plans[0].key

    first = key("x = torch.ones(3)\nloss(x, x)\n")
    assert key("x = torch.ones(3)\nprint('more')\nloss(x, x)\n") == first
    assert key("x = torch.ones(4)\nloss(x, x)\n") != first


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import nowhere\nx = nowhere.load()\nloss(x, x)\n", "ModuleNotFoundError: No module named 'nowhere'"),
        ("x = torch.load('absent.pt')\nloss(x, x)\n", "FileNotFoundError"),
        ("loss(torch.ones(2, 3).view(5), 1)\n", "shape '[5]' is invalid"),
    ],
)
def test_a_call_that_cannot_be_made_is_no_fault_of_the_target(
    text: str, why: str, worker: WorkerClient, tmp_path: Path
) -> None:
    plans = planned(tmp_path, IMPORT + text, "loss", ("loss",))
    assert not isinstance(plans, Missing)
    (tmp_path / "model.py").write_text(MODEL)
    result = Result.read(worker.run(plans[0].as_json()))
    assert result.outcome == "no-inputs"
    assert any(note.startswith("the call in tests/test_model.py:") and why in note for note in result.notes)
    assert findings(result, plans[0], plans[0].source, Settings()) == []


def test_an_error_of_the_target_itself_is_a_finding(worker: WorkerClient, tmp_path: Path) -> None:
    plans = planned(tmp_path, IMPORT + "loss(torch.ones(3), torch.ones(4))\n", "loss", ("loss",))
    assert not isinstance(plans, Missing)
    (tmp_path / "model.py").write_text(MODEL)
    result = Result.read(worker.run(plans[0].as_json()))
    (found,) = findings(result, plans[0], plans[0].source, Settings())
    assert (result.outcome, found.code, found.span.start.line) == ("failed", "DG314", 17)


class TestWorkspace:
    """The whole way: look-up, plan, run, and the next call where one cannot be made."""

    def run(self, root: Path, qualname: str) -> Record:
        source = source_of(MODEL)
        target = target_named(source, qualname)
        assert target is not None

        async def both() -> list[Record] | Missing:
            runs = DryRuns()
            home = Home(Path(sys.executable), root)
            try:
                return await runs.dry_run(source, root / "model.py", target, home, RunOptions(device="cpu"), Settings())
            finally:
                await runs.close()

        records = asyncio.run(both())
        assert isinstance(records, list)
        return records[0]

    def write(self, root: Path, **files: str) -> None:
        (root / "model.py").write_text(MODEL)
        for name, text in files.items():
            (root / f"{name}.py").write_text(text)

    def test_a_call_that_cannot_be_made_gives_way_to_the_next(self, tmp_path: Path) -> None:
        bad = "from model import loss\nimport nowhere\nloss(nowhere.x, 1)\n"
        good = "import torch\nfrom model import WIDTH, loss\nx = torch.ones(WIDTH)\nloss(x, b=x)\n"
        self.write(tmp_path, test_model=bad, script=good)
        record = self.run(tmp_path, "loss")
        assert record.result.outcome == "passed"
        assert [(i.name, i.value, i.source) for i in record.result.inputs] == [
            ("a", "float32 [6] on cpu", "call in script.py:4"),
            ("b", "float32 [6] on cpu", "call in script.py:4"),
        ]
        assert record.result.notes[-1].startswith("the call in test_model.py:3 cannot be built: ModuleNotFoundError")

    def test_without_any_that_can_be_made_the_inputs_are_searched(self, tmp_path: Path) -> None:
        self.write(tmp_path, test_model="from model import loss\nimport nowhere\nloss(nowhere.x, 1)\n")
        record = self.run(tmp_path, "loss")
        assert record.result.outcome == "passed"
        assert record.plan.proposal is not None
