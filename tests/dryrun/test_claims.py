"""What a run may claim: nothing that hangs on an invented input, in whatever value it got there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plan_harness import plan, source_of
from worker_client import WorkerClient

from drygrad.dryrun.findings import findings
from drygrad.dryrun.inputs.proposing import Proposal
from drygrad.dryrun.inventions import OF_FIT, OF_STRUCTURE, OF_VALUES, claimed
from drygrad.dryrun.plan import Missing, RunOptions
from drygrad.dryrun.planning import plan_runs
from drygrad.dryrun.result import Fault, Place, Result
from drygrad.dryrun.targets import target_named
from drygrad.model import Finding
from drygrad.settings import Settings
from drygrad.static.registry import relations

WORKER = Path(__file__).parents[2] / "analyzers" / "drygrad" / "worker"
IMPORTS = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"


@pytest.fixture(scope="module")
def worker() -> Iterator[WorkerClient]:
    with WorkerClient() as client:
        client.receive("ready")
        yield client


def ran(worker: WorkerClient, folder: Path, text: str, qualname: str | None) -> tuple[Result, list[Finding]]:
    source = source_of(text)
    target = target_named(source, qualname)
    assert target is not None
    options = RunOptions(root=folder, device="cpu", timeout=120.0, search_seconds=2.0)
    plans = plan_runs(source, folder / "program.py", target, options)
    assert not isinstance(plans, Missing), plans.message
    result = Result.read(worker.run(plans[0].as_json()))
    return result, findings(result, plans[0], source, Settings(), "run")


def test_every_code_of_the_worker_has_one_kind_of_claim() -> None:
    told = {code for path in WORKER.rglob("*.py") for code in re.findall(r"\bDG\d{3}\b", path.read_text("utf-8"))}
    assert told - OF_FIT - OF_VALUES - OF_STRUCTURE - relations().keys() == set()
    assert OF_FIT & OF_VALUES == OF_FIT & OF_STRUCTURE == OF_VALUES & OF_STRUCTURE == set()


POSITIONS = """\
class Positions(nn.Module):
    def __init__(self, dim=768):
        super().__init__()
        self.pos = nn.Parameter(torch.zeros(1, 196, dim))

    def interpolate(self, x, w, h):
        dim = {dim}
        grid = self.pos.{made}
        return grid.permute(0, 3, 1, 2)
"""
WIDTHS = [
    ("x.shape[-1]", "reshape(1, 14, 14, dim)"),
    pytest.param("[x.size(-1)][0]", "expand(1, 196, dim).view(1, 14, 14, 768)", marks=pytest.mark.slow),
    pytest.param("int(x.shape[-1] * 1.0)", "reshape(1, 14, 14, dim)", marks=pytest.mark.slow),
    ("x.numel() // x.shape[0]", "reshape((1, 14, 14, dim))"),
]


@pytest.mark.parametrize(("dim", "made"), WIDTHS)
def test_an_integer_of_an_invented_shape_is_invented(worker: WorkerClient, tmp_path: Path, dim: str, made: str) -> None:
    _, found = ran(worker, tmp_path, IMPORTS + POSITIONS.format(dim=dim, made=made), "Positions.interpolate")
    assert [(f.code, f.message) for f in found if f.severity in ("error", "warning")] == []


def test_what_no_invented_input_comes_to_is_claimed(worker: WorkerClient, tmp_path: Path) -> None:
    text = IMPORTS + POSITIONS.format(dim="767", made="reshape(1, 14, 14, dim)")
    _, found = ran(worker, tmp_path, text, "Positions.interpolate")
    assert [(f.code, f.severity) for f in found] == [("DG314", "error")]


BLOCK = """\
class Block(nn.Module):
    def __init__(self, width, temb):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.emb = nn.Linear(temb, width)

    def forward(self, x, emb):
        h = self.conv(F.silu(x))
        return h + self.emb(F.silu(emb))[:, :, None, None]
"""


def test_a_number_that_must_be_a_tensor_becomes_one(worker: WorkerClient, tmp_path: Path) -> None:
    result, found = ran(worker, tmp_path, IMPORTS + BLOCK, "Block.forward")
    assert (result.outcome, [f.code for f in found]) == ("passed", [])
    assert next(given.value for given in result.inputs if given.name == "emb").startswith("float32 [")


def test_the_kind_of_an_invented_input_is_no_fault(worker: WorkerClient, tmp_path: Path) -> None:
    text = IMPORTS + "TABLE = torch.zeros(4, 5)\n\ndef product(emb):\n    return TABLE @ TABLE.t() @ torch.eye(emb)\n"
    _, found = ran(worker, tmp_path, text, "product")
    assert [f.code for f in found if f.severity in ("error", "warning")] == []


def test_beside_the_error_that_is_sure_nothing_is() -> None:
    end = Place("/project/train.py", 9)
    beside = Fault("DG303", "the sides of the loss broadcast", Place("/project/train.py", 5))
    sure = Fault("DG314", "the shapes do not fit", end, severity="error")
    zero = Fault("DG401", "a division by zero", Place("/project/train.py", 6))
    error: dict[str, Any] = {"type": "RuntimeError", "message": "", "at": end.__dict__, "stack": []}
    data: dict[str, Any] = {
        "outcome": "failed",
        "error": error,
        "search": {"found": False, "why": "", "inputs": [], "independent": True, "error": error},
    }
    found = plan("def f(x):\n    return x\n\nf(1)\n", "f")
    invented = replace(found, proposal=Proposal({}, frozenset()))
    told = [*claimed([beside, sure, zero], invented, Result.read(data))]
    assert [(fault.code, fault.severity) for fault in told] == [("DG314", "error"), ("DG401", "hint")]
    assert [*claimed([beside, sure, zero], found, Result.read(data))] == [beside, sure, zero]


@pytest.mark.parametrize(
    ("exact", "severities"),
    [(True, [*["error"] * 4, "hint", "hint"]), (False, ["error", *["hint"] * 5])],
)
def test_what_rests_on_the_values_of_a_stand_in_is_a_hint(exact: bool, severities: list[str]) -> None:
    the_plan = plan("def f(x):\n    return x\n\nf(1)\n", "f")
    facts = {"stood_in": {"name": "MNIST", "exact": exact}}
    codes = ["DG101", "DG314", "DG302", "DG304", "DG401", "DG907"]
    faults = [Fault(code, "wrong", Place("program.py", 1), severity="error", facts=facts) for code in codes]
    told = [*claimed(faults, the_plan, Result("failed"))]
    assert [fault.severity for fault in told] == severities
    assert told[-1].message == "wrong (with a stand-in for MNIST)"


AGENT = """\
import os

class Agent(nn.Module):
    def __init__(self, path):
        super().__init__()
        self.scale = torch.load(os.environ["NOT_THERE"] + path)
        self.limit = 0.25

    def loss(self, state):
        return ((state - self.scale) ** 2).mean() + self.limit
"""


def test_an_object_that_cannot_be_made_stands_in_without_its_constructor(worker: WorkerClient, tmp_path: Path) -> None:
    result, found = ran(worker, tmp_path, IMPORTS + AGENT, "Agent.loss")
    assert (result.outcome, [f.code for f in found]) == ("passed", [])
    held = next(entry["text"] for entry in result.data["search"]["inputs"] if entry["name"] == "self")
    assert all(part in held for part in ("(object.__new__(Agent), ", "scale=torch.randn(", "limit=0.25"))


def test_of_an_object_without_its_constructor_nothing_is_sure() -> None:
    written = Fault("DG101", "it is written in place", Place("/project/train.py", 5), severity="error")
    order = replace(written, code="DG933", facts={"relation": "DG933"})
    moved = replace(written, code="DG921", facts={"relation": "DG921"})
    entry: dict[str, Any] = {"name": "self", "text": "object.__new__(Net)", "star": "", "line": None, "column": None}
    entry["source"] = "without its constructor, search"
    data: dict[str, Any] = {"outcome": "passed", "search": {"found": True, "why": "", "inputs": [entry]}}
    invented = replace(plan("def f(x):\n    return x\n\nf(1)\n", "f"), proposal=Proposal({}, frozenset()))
    told = [*claimed([written, order, moved], invented, Result.read(data))]
    assert [(fault.code, fault.severity) for fault in told] == [("DG101", "hint"), ("DG921", "warning")]


TRAINED = """\
import torch

net = torch.nn.Linear(2, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
best = None


def epoch(number):
    global best
    for step in range(50):
        opt.zero_grad()
        net(torch.ones(4, 2)).sum().backward()
        opt.step()
        if step == 30:
            best = net
    {within}


for number in range(20):
    epoch(number)
{after}
"""
AFTER = [
    ("assert number == 19", "hint"),
    ("best.state_dict()", "hint"),
    ("[net][number - 19]\n[1, 2][number - 19 + 17]\n{}[number]", "hint"),
    ("net.no_such_thing()", "error"),
    ("net(torch.ones(4, 3))", "error"),
]


@pytest.mark.parametrize(("after", "severity"), AFTER)
def test_what_a_loop_that_was_left_early_would_have_done_is_not_the_programs(
    worker: WorkerClient, tmp_path: Path, after: str, severity: str
) -> None:
    _, found = ran(worker, tmp_path, TRAINED.format(within="pass", after=after), None)
    assert [(f.severity, "after the loop on line" in f.message) for f in found] == [(severity, severity == "hint")]


def test_of_what_happens_between_two_passes_the_program_has_as_few(worker: WorkerClient, tmp_path: Path) -> None:
    zero = "print((net.weight / (net.weight - net.weight)).sum().backward())"
    for text, severities in (
        (TRAINED.format(within=zero, after=""), {"warning", "error"}),
        (TRAINED.format(within="pass", after=zero), {"hint"}),
    ):
        _, found = ran(worker, tmp_path, text, None)
        told = [f for f in found if f.code == "DG401"]
        assert told
        assert {f.severity for f in told} <= severities
    inside = TRAINED.format(within="assert number > 99", after="")
    _, found = ran(worker, tmp_path, inside, None)
    assert [(f.code, f.severity) for f in found] == [("DG907", "hint")]
