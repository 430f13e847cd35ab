"""Inputs from a program of the project, run until it calls the target, through whatever files lie between."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from plan_harness import source_of
from worker_client import WorkerClient

from drygrad.dryrun.callers import Callers
from drygrad.dryrun.conversation import OnPhase
from drygrad.dryrun.findings import findings
from drygrad.dryrun.launches.finding import find
from drygrad.dryrun.merge import Record
from drygrad.dryrun.plan import Experiments, Missing, Plan, RunOptions
from drygrad.dryrun.planning import plan_runs
from drygrad.dryrun.program import Program
from drygrad.dryrun.result import Result
from drygrad.dryrun.service import DryRuns, Home
from drygrad.dryrun.targets import target_named
from drygrad.settings import Settings

NET = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.fc = nn.Linear(n, 3)
        self.seen = 0

    def forward(self, x, table):
        self.seen += table["step"]
        y = self.fc(x)
        return y

def checked(loss):
    if loss.item() != loss.item():
        raise ValueError
    return loss * 2

class Counter:
    def __init__(self):
        self.count = 0

    def counted(self):
        return torch.ones(self.count)
"""
PARTS = """\
from net import Net, checked

class Trainer:
    def __init__(self, width):
        self.net = Net(width)

    def step(self, x):
        return checked(self.net(x, {"step": 1}).sum())
"""
TRAIN = "import torch\nfrom parts import Trainer\n"
BEGUN = f"{TRAIN}if __name__ == '__main__':\n"


def planned(folder: Path, program: str, qualname: str = "Net.forward", name: str = "train.py", **files: str) -> Plan:
    for file, text in {"net": NET, "parts": PARTS, **files}.items():
        (folder / f"{file}.py").write_text(text)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(program)
    path = folder / "net.py" if name != "net.py" else folder / name
    source = source_of(path.read_text())
    target = target_named(source, qualname)
    assert target is not None
    given = Program.plain(folder / name, name, source_of(program))
    plans = plan_runs(source, path, target, RunOptions(device="cpu", root=folder, programs=(given,)))
    assert not isinstance(plans, Missing)
    return plans[0]


def result_of(worker: WorkerClient, plan: Plan) -> Result:
    return Result.read(worker.run(plan.as_json()))


def test_the_first_call_of_a_target_three_files_away(worker: WorkerClient, tmp_path: Path) -> None:
    program = TRAIN + (
        "import argparse\n"
        "def main():\n"
        "    parser = argparse.ArgumentParser()\n"
        "    parser.add_argument('--width', type=int, default=6)\n"
        "    args = parser.parse_args()\n"
        "    data = torch.utils.data.TensorDataset(torch.arange(60.).reshape(10, args.width))\n"
        "    trainer = Trainer(args.width)\n"
        "    for epoch in range(100):\n"
        "        for (x,) in torch.utils.data.DataLoader(data, batch_size=4):\n"
        "            trainer.step(x)\n"
        "            print('behind')\n"
        "if __name__ == '__main__':\n"
        "    print('before')\n"
        "    main()\n"
    )
    result = result_of(worker, planned(tmp_path, program))
    assert (result.outcome, result.backward) == ("passed", "probe")
    source = "train.py, where `forward` was first called"
    assert [(i.name, i.value, i.source) for i in result.inputs] == [
        ("self", "Net with 21 parameters", source),
        ("x", "float32 [4, 6] on cpu", source),
        ("table", "dict of 1", source),
    ]
    assert result.output == "before\n"
    assert [row.name for row in result.shapes] == ["y", "return"]


def test_a_later_call_that_comes_by_what_the_first_has_left_out(worker: WorkerClient, tmp_path: Path) -> None:
    net = (
        "import torch\n"
        "class Meter:\n"
        "    def __init__(self):\n"
        "        self.total = None\n"
        "    def add(self, x):\n"
        "        if self.total is None:\n"
        "            self.total = torch.zeros(())\n"
        "        w = torch.ones(300, 300, requires_grad=True)\n"
        "        (w @ w).sum().backward()\n"
        "        if self.total > 3:\n"
        "            return self.total / x\n"
        "        self.total = self.total + x.sum()\n"
    )
    program = (
        "import torch\n"
        "from net import Meter\n"
        "meter = Meter()\n"
        "torch.ones(2, requires_grad=True).sum().backward()\n"
        "for step in range(5):\n"
        "    meter.add(torch.full((2,), float(step)))\n"
        "    print(step)\n"
    )
    plan = planned(tmp_path, program, "Meter.add", net=net)
    assert plan.program is not None
    past = replace(plan, program=replace(plan.program, past=frozenset((11,))))
    result = result_of(worker, past)
    assert (result.outcome, result.output) == ("passed", "0\n1\n2\n")
    assert [i.source for i in result.inputs] == ["train.py, where `add` was called again"] * 2
    assert 11 in result.blocks
    again = result_of(worker, replace(plan, program=past.program and past.program.passing_over(result.data["skipped"])))
    assert (again.inputs, again.blocks) == (result.inputs, result.blocks)
    never = result_of(worker, replace(plan, program=replace(plan.program, past=frozenset((99,)))))
    assert (never.outcome, never.reason) == ("no-inputs", "train.py ends without calling the target")


STEP = "Trainer(2).step(torch.ones(1, 2))"
MODES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "without gradients": (f"with torch.no_grad():\n    {STEP}", "Net.forward", {"backward": "none"}),
    "in half": (f"with torch.autocast('cpu'):\n    {STEP}", "Net.forward", {"dtype": "bfloat16"}),
    "with a default": (f"torch.set_default_dtype(torch.double)\n{STEP}", "Net.forward", {"dtype": "float64"}),
    "behind one within vmap": (
        "net = Trainer(2).net\n"
        f"torch.func.vmap(lambda x: net(x, {{'step': 1}}))(torch.full((3, 2), torch.inf))\n{STEP}",
        "Net.forward",
        {"backward": "probe", "dtype": "float32"},
    ),
    "of a tensor with a graph": (STEP, "checked", {"backward": "probe"}),
}


@pytest.mark.parametrize(("text", "qualname", "expected"), MODES.values(), ids=MODES.keys())
def test_a_call_is_made_in_the_modes_of_the_program(
    text: str, qualname: str, expected: dict[str, Any], worker: WorkerClient, tmp_path: Path
) -> None:
    result = result_of(worker, planned(tmp_path, f"{TRAIN}{text}\n", qualname))
    seen = {"backward": result.backward, "dtype": result.shapes[0].dtype if result.shapes else None}
    assert (result.outcome, seen | expected, result.faults) == ("passed", seen, ())


@pytest.mark.parametrize(
    "text",
    [
        f"def go():\n    try:\n        {STEP}\n    except:\n        pass\n    torch.relu(None)\ngo()\n",
        f"try:\n    {STEP}\nexcept BaseException:\n    pass\nfor n in range(9):\n    print('behind')\n",
        "import contextlib\n@contextlib.contextmanager\ndef held():\n    try:\n        yield\n    finally:\n"
        f"        print('held')\nwith held():\n    {STEP}\n",
    ],
)
def test_what_a_program_does_about_its_end_is_nothing_of_the_run(
    text: str, worker: WorkerClient, tmp_path: Path
) -> None:
    result = result_of(worker, planned(tmp_path, TRAIN + text))
    assert (result.outcome, result.error, result.faults) == ("passed", None, ())
    assert "behind" not in result.output


def test_a_method_that_a_subclass_calls_on_its_own_object(worker: WorkerClient, tmp_path: Path) -> None:
    program = (
        "import torch\nfrom net import Net\n"
        "class Named(Net):\n    def forward(self, n):\n        return super().forward(torch.ones(5, n), {'step': 1})\n"
        "Named(2)(2)\n"
    )
    result = result_of(worker, planned(tmp_path, program))
    assert (result.outcome, result.inputs[1].value) == ("passed", "float32 [5, 2] on cpu")
    assert 11 in result.blocks


METHODS = """\
import torch

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        return x * x * scale

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2 * x, None

class Sum:
    @classmethod
    def made(cls, x):
        return x.sum()

    @staticmethod
    def of(x):
        return x.sum()

    @property
    def total(self):
        return self.x.sum()
"""
CALLED = {
    "Square.forward": ("Square.apply(x, 3)", ["x", "scale"]),
    "Sum.made": ("Sum.made(x)", ["self", "x"]),
    "Sum.of": ("Sum().of(x)", ["x"]),
    "Sum.total": ("held = Sum()\nheld.x = x\nheld.total", ["self"]),
}


@pytest.mark.parametrize("qualname", CALLED)
def test_methods_of_any_kind(qualname: str, worker: WorkerClient, tmp_path: Path) -> None:
    text, names = CALLED[qualname]
    program = f"from methods import Square, Sum, torch\nx = torch.ones(3, requires_grad=True)\n{text}\n"
    plan = planned(tmp_path, program, methods=METHODS)
    target = target_named(source_of(METHODS), qualname)
    assert target is not None
    result = result_of(worker, replace(plan, source=source_of(METHODS), path=tmp_path / "methods.py", target=target))
    assert (result.outcome, result.backward) == ("passed", "probe")
    assert [one.name for one in result.inputs] == names


def test_a_function_of_the_program_itself(worker: WorkerClient, tmp_path: Path) -> None:
    text = NET + "if __name__ == '__main__':\n    n = int('2')\n    Net(n)(torch.ones(7, n), {'step': n})\n"
    plan = planned(tmp_path, text, name="net.py")
    assert plan.source.text == text
    result = result_of(worker, plan)
    assert (result.outcome, result.inputs[1].value) == ("passed", "float32 [7, 2] on cpu")


def test_a_script_in_a_folder_of_its_own_and_a_package(worker: WorkerClient, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/__init__.py").write_text(PARTS)
    program = "from pathlib import Path\n" + TRAIN + "Trainer(len([*Path('.').glob('*.py')]) + 1).step(torch.ones(2))\n"
    result = result_of(worker, planned(tmp_path, program, name="examples/train.py"))
    assert (result.outcome, result.inputs[1].value) == ("passed", "float32 [2] on cpu")


GUARDED = "if __name__ == '__main__':\n    raise SystemExit('started as a script')\n"


@pytest.mark.parametrize("guard", ["", GUARDED], ids=["alone", "beside a script"])
def test_a_console_script_with_the_arguments_that_the_project_gives_it(
    guard: str, worker: WorkerClient, tmp_path: Path
) -> None:
    program = f"import sys\n{TRAIN}def run():\n    Trainer(int(sys.argv[1])).step(torch.ones(2, 6))\n{guard}"
    planned(tmp_path, program, name="cli.py")
    (tmp_path / "pyproject.toml").write_text('[project.scripts]\ntrain-net = "cli:run"\n')
    (tmp_path / "README.md").write_text("```console\nuv run train-net 6\n```\n")
    source = source_of(NET)
    target = target_named(source, "Net.forward")
    assert target is not None
    (launch,) = [one for one in find(tmp_path).of(tmp_path / "cli.py") if one.arguments]
    options = RunOptions(device="cpu", root=tmp_path, programs=(Program(launch, "cli.py", source_of(program)),))
    plans = plan_runs(source, tmp_path / "net.py", target, options)
    assert not isinstance(plans, Missing)
    result = result_of(worker, plans[0])
    assert (result.outcome, [given.value for given in result.inputs][1]) == ("passed", "float32 [2, 6] on cpu")


async def test_a_console_script_is_started_as_the_project_says(tmp_path: Path) -> None:
    program = f"import sys\n{BEGUN}    run()\n\ndef run():\n    Trainer(int(sys.argv[1])).step(torch.ones(2, 6))\n"
    planned(tmp_path, program, name="cli.py")
    (tmp_path / "pyproject.toml").write_text('[project.scripts]\ntrain-net = "cli:run"\n')
    (tmp_path / "README.md").write_text("```console\nuv run train-net 6\n```\n")
    target = target_named(source_of(NET), "Net.forward")
    assert target is not None
    callers = Callers()
    found = await callers.programs_of(tmp_path / "net.py", target, tmp_path, Path(sys.executable), RunOptions())
    await callers.close()
    assert [one.launch.shown for one in found] == ["train-net", "train-net 6"]


def test_tests_with_what_pytest_gives_them(worker: WorkerClient, tmp_path: Path) -> None:
    chosen = "def pytest_collection_modifyitems(items):\n    items.clear()  # but those of a stage that is asked for\n"
    (tmp_path / "conftest.py").write_text(f"import pytest\n@pytest.fixture\ndef width():\n    return 3\n{chosen}")
    text = (
        f"import pytest\n{TRAIN}"
        "def test_before():\n    assert 1 == 2\n"
        "@pytest.mark.parametrize('n', [8, 9])\n"
        "def test_step(width, n):\n    Trainer(width).step(torch.ones(n, width))\n"
        "def test_behind():\n    print('behind')\n"
    )
    plan = planned(tmp_path, text)
    names = ("test_before", "test_step", "test_behind")
    tests = Program.tests(tmp_path / "train.py", "train.py", source_of(text), names, tmp_path)
    result = result_of(worker, replace(plan, program=tests))
    assert (result.outcome, result.inputs[1].value) == ("passed", "float32 [8, 3] on cpu")
    assert "behind" not in result.output


def test_tests_that_name_the_target_come_first(worker: WorkerClient, tmp_path: Path) -> None:
    text = (
        f"import unittest\n{TRAIN}import net\nfrom net import checked\n"
        "class Common:\n"
        "    def told(self):\n        checked(torch.ones((), dtype=torch.float64))\n"
        "    def test_told(self):\n        self.told()\n"
        "class TestIt(unittest.TestCase, Common):\n"
        "    def test_another(self):\n        getattr(net, 'che' + 'cked')(torch.ones(()))\n"
    )
    plan = planned(tmp_path, text, qualname="checked")
    tests = Program.tests(tmp_path / "train.py", "train.py", source_of(text), ("TestIt",), tmp_path)
    result = result_of(worker, replace(plan, program=tests))
    assert (result.outcome, result.inputs[0].value) == ("passed", "float64 [] on cpu")


def test_the_folder_of_a_target_is_none_that_imports_are_searched_in(tmp_path: Path) -> None:
    plan = planned(tmp_path, TRAIN, name="examples/train.py")
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    moved = replace(plan, path=package / "net.py")
    assert package not in moved.sys_path
    assert tmp_path / "examples" in moved.sys_path


ENDS: dict[str, tuple[str, str]] = {
    "an error": ("open('absent.txt')\n", "FileNotFoundError: [Errno 2] No such file or directory: 'absent.txt' ("),
    "no arguments": (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--data', required=True)\np.parse_args()\n",
        "the following arguments are required: --data (train.py:6)",
   ),
    "a package": ("import nowhere\nnowhere.load()\n", "module `nowhere` is neither in the project"),
    "no text of Python's": ("Trainer(\n", "SyntaxError"),
    "a long time": ("import time\ntime.sleep(10_000)\n", "not within 0.1 s (train.py:4)"),
    "one that it passes over": (
        "import time\nwhile True:\n    try:\n        time.sleep(10_000)\n    except BaseException:\n        break\n"
        "time.sleep(10_000)\n",
        "not within 0.1 s (train.py:9)",
   ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "why"), ENDS.values(), ids=ENDS.keys())
def test_a_program_that_ends_before_is_no_fault_of_the_target(
    text: str, why: str, worker: WorkerClient, tmp_path: Path
) -> None:
    plan = planned(tmp_path, TRAIN)
    asked = plan.as_json()
    asked["program"] |= {"text": TRAIN + text, "seconds": 0.1}
    result = Result.read(worker.run(asked))
    assert result.outcome == "no-inputs"
    assert result.reason is not None
    assert result.reason.startswith("train.py does not reach the target: ")
    assert why in result.reason
    assert findings(result, plan, plan.source, Settings()) == []


@pytest.mark.parametrize("end", ["", "raise SystemExit\n", "import sys\nsys.exit(False)\n"])
def test_a_program_that_does_not_call_the_target(end: str, worker: WorkerClient, tmp_path: Path) -> None:
    result = result_of(worker, planned(tmp_path, f"{TRAIN}x = torch.ones(2)\n{end}"))
    assert (result.outcome, result.reason) == ("no-inputs", "train.py ends without calling the target")


def test_an_error_of_the_target_is_a_finding_there(worker: WorkerClient, tmp_path: Path) -> None:
    program = TRAIN + "try:\n    Trainer(2).step(torch.ones(1, 5))\nexcept Exception:\n    pass\n"
    plan = planned(tmp_path, program)
    result = result_of(worker, plan)
    (found,) = findings(result, plan, plan.source, Settings())
    assert (result.outcome, found.severity, found.span.start.line) == ("failed", "error", 12)
    assert found.path is None


def test_a_backward_pass_that_the_program_did_not_begin_has_no_line_in_it(worker: WorkerClient, tmp_path: Path) -> None:
    overwrites = NET.replace("y = self.fc(x)", "y = self.fc(x).exp()\n        y += 1")
    plan = planned(tmp_path, f"{TRAIN}{STEP}\n", net=overwrites)
    (found,) = findings(result_of(worker, plan), plan, plan.source, Settings())
    assert (found.code, found.message.endswith("; backward() fails")) == ("DG101", True)
    assert [related.message for related in found.related] == ["exp saves its output for backward"]


def test_what_a_program_does_before_and_at_its_end_is_not_told(worker: WorkerClient, tmp_path: Path) -> None:
    waits = "torch.ones(2, device='cuda').sum().item()"
    plan = planned(tmp_path, f"{TRAIN}{waits}\ntry:\n    {STEP}\nfinally:\n    {waits}\n")
    result = result_of(worker, replace(plan, options=replace(plan.options, device="sim")))
    assert (result.outcome, result.faults, result.data["syncs"]) == ("passed", (), [])


def test_an_error_behind_a_loop_that_was_left_early_is_a_hint(worker: WorkerClient, tmp_path: Path) -> None:
    program = (
        "import torch\nfrom total import total\n"
        "def made():\n    kept = []\n    w = torch.zeros(2, requires_grad=True)\n"
        "    optimizer = torch.optim.SGD([w], 0.1)\n"
        "    for n in range(100):\n        w.sum().backward()\n        optimizer.step()\n"
        "        optimizer.zero_grad()\n"
        "        if n == 50:\n            kept.append(w)\n    return kept\n"
        "def main():\n    total(made())\nmain()\n"
    )
    total = "import torch\ndef total(kept):\n    return torch.stack(kept)\n"
    plan = planned(tmp_path, program, total=total)
    target = target_named(source_of(total), "total")
    assert target is not None
    plan = replace(plan, source=source_of(total), path=tmp_path / "total.py", target=target)
    (found,) = findings(result_of(worker, plan), plan, plan.source, Settings())
    assert (found.severity, found.span.start.line) == ("hint", 3)
    assert found.message.endswith("(after the loop on line 7, which a dry run leaves early)")


def test_experiments_are_made_with_the_inputs_of_the_program(worker: WorkerClient, tmp_path: Path) -> None:
    total = "import torch\nSEEN = []\ndef total(x):\n    SEEN.append(x.sum())\n    return x + sum(SEEN)\n"
    program = "from total import total, torch\ntotal(torch.ones(4, 3, requires_grad=True) * 2)\n"
    plan = planned(tmp_path, program, total=total)
    target = target_named(source_of(total), "total")
    assert target is not None
    options = replace(plan.options, experiments=Experiments(("DG929",), 60.0))
    plan = replace(plan, source=source_of(total), path=tmp_path / "total.py", target=target, options=options)
    result = worker.run(plan.as_json())
    assert [(one["outcome"], one["why"]) for one in result["experiments"]] == [("broken", "")]
    assert [(fault["code"], fault["at"]["line"]) for fault in result["faults"]] == [("DG929", 5)]


@pytest.mark.parametrize(("before", "outcome"), [("", "broken"), ("on = torch.ones(2, device='cuda')\n", "not-tried")])
def test_inputs_that_a_program_keeps_from_the_gpu_stay_there(
    before: str, outcome: str, worker: WorkerClient, tmp_path: Path
) -> None:
    total = "import torch\ndef total(x):\n    return x + torch.ones(3)\n"
    plan = planned(tmp_path, f"from total import total, torch\n{before}total(torch.ones(4, 3))\n", total=total)
    target = target_named(source_of(total), "total")
    assert target is not None
    options = replace(plan.options, device="sim", experiments=Experiments(("DG921",), 60.0))
    plan = replace(plan, source=source_of(total), path=tmp_path / "total.py", target=target, options=options)
    assert [one["outcome"] for one in worker.run(plan.as_json())["experiments"]] == [outcome]


DryRun: TypeAlias = "Callable[..., tuple[Record, list[str]]]"


class Counting(DryRuns):
    """Notes the programs that it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.run: list[str] = []

    async def _carry_out(self, plan: Plan, home: Home, settings: Settings, on_phase: OnPhase | None) -> Record:
        self.run += [plan.program.shown] if plan.program else []
        return await super()._carry_out(plan, home, settings, on_phase)


class TestWorkspace:
    """The whole way: look-up, plan, run, and what is done where a program does not reach the target."""

    @pytest.fixture
    def dry_run(self, tmp_path: Path) -> Iterator[DryRun]:
        (tmp_path / "net.py").write_text(NET)
        (tmp_path / "parts.py").write_text(PARTS)
        loop, runs = asyncio.new_event_loop(), Counting()
        home = Home(Path(sys.executable), tmp_path)

        def run(qualname: str, seconds: float = 10.0, **files: str) -> tuple[Record, list[str]]:
            for name, text in files.items():
                (tmp_path / f"{name}.py").write_text(text)
            source, runs.run = source_of(NET), []
            target = target_named(source, qualname)
            assert target is not None
            options = RunOptions(device="cpu", program_seconds=seconds)
            records = loop.run_until_complete(
                runs.dry_run(source, tmp_path / "net.py", target, home, options, Settings())
            )
            assert isinstance(records, list)
            return records[0], runs.run

        yield run
        loop.run_until_complete(runs.close())
        loop.close()

    def test_the_nearest_program_that_comes_to_it(self, dry_run: DryRun) -> None:
        bad = f"{BEGUN}    open('absent')\n    {STEP}\n"
        record, run = dry_run("checked", a=bad, b=f"{BEGUN}    {STEP}\n")
        assert (record.result.outcome, run) == ("passed", ["a.py", "b.py"])
        assert record.result.inputs[0].source == "b.py, where `checked` was first called"
        assert record.result.notes[-1].startswith("a.py does not reach the target: FileNotFoundError")
        assert {path.name for path in record.files} == {"b.py", "parts.py"}
        assert record.comment is None

    def test_an_object_as_the_program_has_it_is_better_than_one_that_is_just_made(self, dry_run: DryRun) -> None:
        program = "from net import Counter\nif __name__ == '__main__':\n    held = Counter()\n"
        record, _ = dry_run("Counter.counted", a=f"{program}    held.count = 7\n    held.counted()\n")
        assert [row.shape for row in record.result.shapes] == [(7,)]
        record, _ = dry_run("Counter.counted", a=program)
        assert (record.result.outcome, record.result.inputs[0].source) == ("passed", "constructor")

    def test_where_none_does_the_inputs_are_searched(self, dry_run: DryRun) -> None:
        record, _ = dry_run("checked", a=f"{BEGUN}    Trainer(2).net\n")
        assert record.plan.proposal is not None
        assert record.result.notes[-1] == "a.py ends without calling the target"

    def test_a_program_is_run_again_only_for_what_it_came_by(self, dry_run: DryRun) -> None:
        text = f"{BEGUN}    Trainer(2).net(torch.ones(2), {{'step': 1}})\n    open('absent')\n"
        assert dry_run("checked", a=text)[1] == ["a.py"]
        record, run = dry_run("checked")
        assert (run, record.result.notes[-1].partition(":")[0]) == ([], "a.py does not reach the target")
        assert dry_run("Net.forward")[1] == ["a.py"]
        assert dry_run("checked", a=f"{BEGUN}    {STEP}\n")[1] == ["a.py"]

    def test_a_test_comes_before_a_script(self, dry_run: DryRun) -> None:
        text = f"{TRAIN}def test_step():\n    {STEP}\n"
        record, run = dry_run("checked", a=f"{BEGUN}    {STEP}\n", test_a=text)
        assert (record.result.outcome, run) == ("passed", ["test_a.py"])

    def test_none_is_run_without_time_for_it(self, dry_run: DryRun) -> None:
        assert dry_run("checked", 0.0, a=f"{BEGUN}    {STEP}\n")[1] == []
