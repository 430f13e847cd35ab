"""What could be different: each is traced, what saves most comes first, what fits is found by search."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from worker_client import WorkerClient, plan

from drygrad.cli.formats.what_if import table
from drygrad.cli.main import main
from drygrad.dryrun import service
from drygrad.dryrun.comparing import Comparison, Sample
from drygrad.dryrun.forecast_finding import change_of
from drygrad.dryrun.merge import Record
from drygrad.dryrun.plan import Forecast, Plan, RunOptions
from drygrad.dryrun.planning import plan_runs
from drygrad.dryrun.result import Result
from drygrad.dryrun.targets import target_named
from drygrad.dryrun.what_if.equality import Equality
from drygrad.dryrun.what_if.exploring import Table, compared, explore, made_row
from drygrad.dryrun.what_if.sizes import BATCH, sizes
from drygrad.dryrun.what_if.variants import Variant, variants
from drygrad.gpus import gpu_named
from drygrad.model import Edit, Position, Span
from drygrad.static.source import Source

PROGRAM = """\
import torch
from torch import nn
from torch.nn import functional as F

batch_size = 16


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(256, 768), nn.Linear(256, 256)
        self.mlp = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256))

    def forward(self, x):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, 4, 64).permute(2, 0, 3, 1, 4)
        y = (q @ k.transpose(-2, -1) * 0.125).softmax(-1) @ v
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.mlp(x)


def train():
    words, blocks = nn.Embedding(16384, 256).cuda(), nn.Sequential(*[Block() for _ in range(3)]).cuda()
    net = nn.ModuleList([words, blocks, nn.Linear(256, 16384).cuda()])
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(3):
        ids = torch.randint(0, 16384, (batch_size, 512), device="cuda")
        logits = net[2](blocks(words(ids)))
        F.cross_entropy(logits.flatten(0, 1), ids.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
"""
GIB = 1 << 30


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """The forecast of a program with its table, as machines read it."""
    path = tmp_path_factory.mktemp("what_if") / "train.py"
    path.write_text(PROGRAM, encoding="utf-8")
    words = ["forecast", f"{path}::train", "--gpu", "8GiB", "--what-if", "--python", sys.executable, "--no-progress"]
    words += ["--timeout", "300"]
    with pytest.MonkeyPatch.context() as patch:
        written: list[str] = []
        patch.setattr(sys.stdout, "write", written.append)
        # What the table says is looked at here, not how much of it a busy machine has time for.
        patch.setattr(service, "explore", partial(explore, seconds=None))
        assert main([*words, "--output-format", "json"]) == 0
    (one,) = json.loads("".join(written))["forecasts"]
    return one["forecast"]


def rows(told: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {row["change"]: row for row in told["what_if"]}


@pytest.mark.slow
def test_what_saves_most_comes_first(told: Mapping[str, Any]) -> None:
    saved = [row["saves"] for row in told["what_if"]]
    assert saved == sorted(saved, reverse=True)
    for row in told["what_if"]:
        assert row["saves"] == told["peak_reserved"] - row["peak_reserved"]
        less = max(abs(row["saves"]), abs(row["peak_allocated"] - told["peak_allocated"]))
        assert less > 0.01 * told["peak_reserved"], "what makes no difference is left out"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "results", "saves", "computes"),
    [
        ("gradient checkpointing of the 3 `Block`", "same", 0.05, (1.05, 1.4)),
        ("`scaled_dot_product_attention` instead of hand-written attention", "same", 0.05, (0.95, 1.2)),
        ("the loss over the vocabulary in chunks", "same", 0.3, (1.1, 1.4)),
        ("everything in bfloat16", "rounded", 0.4, (0.99, 1.01)),
        ("batches of 8, gradients accumulated over 2", "same", 0.3, (0.99, 1.01)),
    ],
)
def test_a_change_saves_what_it_is_for(
    told: Mapping[str, Any], change: str, results: str, saves: float, computes: tuple[float, float]
) -> None:
    row = rows(told)[change]
    assert row["results"] == results
    assert row["saves"] > saves * told["peak_reserved"]
    assert computes[0] <= row["flops"] <= computes[1]


@pytest.mark.slow
def test_the_largest_batch_that_fits_is_told_with_its_edit(told: Mapping[str, Any]) -> None:
    (row,) = (row for row in told["what_if"] if row["batch"])
    assert row["fits"] and row["batch"] > 16
    assert row["peak_reserved"] > 0.8 * (8 * GIB - told["context"])
    (edit,) = row["edits"]
    assert (edit["start"], edit["new_text"]) == ({"line": 5, "column": 14}, str(row["batch"]))


@pytest.mark.slow
def test_a_step_in_parts_is_offered_as_edits_once_its_gradients_were_the_same(told: Mapping[str, Any]) -> None:
    texts = [edit["new_text"] for edit in rows(told)["batches of 8, gradients accumulated over 2"]["edits"]]
    assert "for ids in ids.chunk(2):" in texts[0]


@pytest.mark.parametrize(
    ("now", "alike"),
    [([1e-5, 0.0], True), ([1.004e-5, 1e-8], True), ([2e-5, 0.0], False), ([1e-5, None], False), ([1e-5], False)],
)
def test_gradients_of_steps_are_compared_by_the_measure_of_the_largest(now: list[Any], alike: bool) -> None:
    def ran(elements: list[Any]) -> Comparison:
        sample = Sample((len(elements),), tuple(elements))
        return replace(Comparison.of_none(), steps={"1:0": sample})

    assert ran([1e-5, 0.0]).steps_as(ran(now)) == alike
    assert not ran([1e-5]).steps_as(Comparison.of_none())


@pytest.mark.slow
def test_changes_that_a_program_is_not_for_are_left_out(told: Mapping[str, Any]) -> None:
    assert not [change for change in rows(told) if "evaluation" in change or "channels" in change]
    assert [change for change in rows(told) if change.startswith("together: ")]


@pytest.fixture(scope="module")
def worker() -> Iterator[WorkerClient]:
    with WorkerClient() as client:
        yield client


@pytest.mark.slow
def test_a_run_tells_what_could_be_different_and_what_was(tmp_path: Path, worker: WorkerClient) -> None:
    def run(*words: str) -> Mapping[str, Any]:
        forecast = {"gpu": None, "changes": words}
        return worker.run(plan(tmp_path, PROGRAM + "\ntrain()\n", device="sim", forecast=forecast))["forecast"]

    plain = run()
    changed = run("checkpoint:__main__.Block", "fused", "sdpa", "chunked-loss", "no-grad")
    assert [(block["name"], block["count"]) for block in plain["seen"]["blocks"]] == [("__main__.Block", 3)]
    assert plain["seen"]["optimizers"] == [{"name": "AdamW", "fusible": True, "foreach": True}]
    assert (plain["seen"]["flags"], plain["changed"]) == (["words", "zeros"], {})
    assert changed["changed"] == {"checkpoint": 9, "fused": 1, "sdpa": 18, "chunked-loss": 3, "no-grad": 0}
    assert changed["peak_reserved"] < plain["peak_reserved"] / 2 and plain["flops"] < changed["flops"]


ACCUMULATING = """\
import torch

weight = torch.zeros(1 << 20, device="cuda", requires_grad=True)
optimizer = torch.optim.Adam([weight])
for step in range(100):
    (weight * torch.randn(1 << 20, device="cuda")).sum().backward()
    if step % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()
"""


def test_what_an_optimizer_keeps_is_there_beside_what_the_next_pass_needs(tmp_path: Path, worker: WorkerClient) -> None:
    run = worker.run(plan(tmp_path, ACCUMULATING, device="sim", forecast={"gpu": None}))
    assert [loop["iterations"] for loop in run["truncated"]] == [5], "four passes to a step, and one after it"


class Linear:
    """A program that takes so many bytes, and so many more for each sample; of others nothing is known."""

    def __init__(self, tmp_path: Path, fixed: int, each: int, *, gpu: str = "24GiB", batch: int = 8) -> None:
        self.fixed, self.each, self.tried = fixed, each, list[int]()
        source = Source(f"batch_size = {batch}\n\ndef train():\n    pass\n")
        target = target_named(source, "train")
        assert target is not None
        self.gpu = gpu_named(gpu)
        planned = plan_runs(source, tmp_path / "x.py", target, RunOptions(device="sim", forecast=Forecast(self.gpu)))
        assert isinstance(planned, list)
        self.record = Record("1", planned[0], self.result(batch))

    def result(self, batch: int) -> Result:
        reserved, room = self.fixed + self.each * batch, self.gpu.memory - GIB // 2
        told: dict[str, Any] = {"peak_allocated": reserved, "peak_reserved": reserved, "fits": reserved <= room}
        told |= {
            "flops": batch,
            "time": None,
            "changed": {},
            "by_line": [],
            "memory": self.gpu.memory,
            "context": GIB // 2,
        }
        told["seen"] = {"flags": [], "optimizers": [], "blocks": [], "linear": 0}
        return Result("passed", data={"forecast": told})

    async def carry_out(self, plan: Plan) -> Result:
        options = plan.options.forecast
        assert options is not None
        batch = sizes(plan.source, BATCH)[0].value
        if not options.changes:
            self.tried.append(batch)
        return self.result(batch)


@pytest.mark.parametrize(
    ("fixed", "each", "batch", "largest"),
    [
        (2 * GIB, GIB, 8, 21),
        (2 * GIB, GIB, 64, 21),
        (2 * GIB, 2 * GIB, 8, 10),
        (0, GIB // 8, 8, 184),
        (20 * GIB, 2 * GIB, 2, 1),
        (22 * GIB, 2 * GIB, 1, None),
        (GIB, GIB, 22, None),
    ],
)
async def test_the_largest_batch_is_found_in_few_traces(
    tmp_path: Path, fixed: int, each: int, batch: int, largest: int | None
) -> None:
    program = Linear(tmp_path, fixed, each, batch=batch)
    found = [row.batch for row in (await explore(program.record, program.carry_out, None)).rows if row.batch]
    assert found == ([] if largest is None else [largest])
    assert len(program.tried) <= 8


class Answers:
    """Says of edits what they are called."""

    async def of(self, edits: tuple[Edit, ...], *, in_parts: bool = False, rounded: bool = False) -> bool | None:
        return {"same": True, "else": False}.get(edits[0].new_text)


async def test_a_text_is_offered_only_after_it_has_computed_the_same(tmp_path: Path) -> None:
    program = Linear(tmp_path, GIB, GIB)
    base = program.result(8).data["forecast"]
    start = Position(1, 0)
    texts = {name: (Edit(Span(start, start), name),) for name in ("same", "else", "unknown")}
    otherwise = Variant("by the worker", "same", program.record.plan)
    worth = [Variant(name, "same", program.record.plan, edits=e, otherwise=otherwise) for name, e in texts.items()]
    rows = [made_row(name, "same", base, program.result(4).data["forecast"], edits=e) for name, e in texts.items()]

    async def half(plan: Plan) -> Result:
        return program.result(4)

    found = await compared(rows, worth, cast("Equality", Answers()), None, base, half)
    assert {row.change: row.edits for row in found} == {"same": texts["same"], "by the worker": (), "unknown": ()}

    alone = [replace(variant, otherwise=None) for variant in worth]
    found = await compared(rows, alone, cast("Equality", Answers()), None, base, half)
    offered = {row.change: (row.edits, row.compared) for row in found}
    assert offered == {"same": (texts["same"], True), "else": ((), False), "unknown": (texts["unknown"], False)}
    assert [change_of(row).verified for row in found if row.edits] == [True, None], "nobody has compared the last one"


@pytest.mark.parametrize(("first", "alike"), [([1.0, 0.05], True), ([1.05, 0.0], True), ([1.1, 0.0], False)])
def test_fewer_digits_leave_the_gradients_of_the_first_step(first: list[float], alike: bool) -> None:
    def ran(*steps: list[float]) -> Comparison:
        samples = {f"{number}:0": Sample((len(each),), tuple(each)) for number, each in enumerate(steps, 1)}
        return replace(Comparison.of_none(), steps=samples)

    before = ran([1.0, 0.0], [2.0, 0.0])
    assert ran(first, [3.0, 0.0]).begins_as(before, 0.0625) == alike, "the next step follows other weights"
    assert not ran().begins_as(before, 0.0625)


def test_float8_is_for_gpus_that_have_it(tmp_path: Path) -> None:
    seen: dict[str, Any] = {"flags": [], "optimizers": [], "blocks": [], "linear": 9}
    words = {
        gpu: [v.words for v in variants(Linear(tmp_path, 0, GIB, gpu=gpu).record, seen) if v.assumes]
        for gpu in ("A100", "H100", "MI300X", "24GiB")
    }
    assert words == {"A100": [], "H100": [("float8:fn",)], "MI300X": [("float8:fnuz",)], "24GiB": []}


def test_the_table_leaves_out_what_is_not_known() -> None:
    base: dict[str, Any] = {
        "peak_reserved": 9 * GIB,
        "peak_allocated": 8 * GIB,
        "flops": 10,
        "time": None,
        "by_line": [],
    }
    now = {**base, "peak_reserved": 6 * GIB, "peak_allocated": 5 * GIB, "flops": 12, "fits": None}
    found = (made_row("a", "same", base, now), made_row("b", "other", now, {**base, "fits": None}))
    shown = table(Table(found, 3), base)
    assert [line.split() for line in shown.splitlines()[1:]] == [
        ["saves", "reserved", "computes", "results", "what", "if"],
        ["3.00", "GiB", "6.00", "GiB", "1.20x", "equal", "a"],
        ["-3.00", "GiB", "9.00", "GiB", "0.83x", "others", "b"],
        ["3", "more", "were", "not", "traced", "within", "120", "s"],
    ]


async def test_what_is_not_traced_in_time_is_counted_and_ended(tmp_path: Path) -> None:
    program, ended = Linear(tmp_path, GIB, GIB), list[Plan]()

    async def forever(plan: Plan) -> Result:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(plan)
        raise AssertionError

    found = await explore(program.record, forever, 0.2)
    assert found.rows == () and found.untraced >= 3
    assert len(ended) <= found.untraced
