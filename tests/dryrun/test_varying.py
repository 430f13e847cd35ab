"""Options of a target that a run has not taken: which ones lead to the lines that it has left out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from plan_harness import source_of

from drygrad.dryrun.inputs.callers import Caller
from drygrad.dryrun.inputs.nodes import read_again
from drygrad.dryrun.merge import Record
from drygrad.dryrun.plan import Plan, RunOptions
from drygrad.dryrun.planning import plan_runs
from drygrad.dryrun.program import Program
from drygrad.dryrun.result import Coverage, Result
from drygrad.dryrun.targets import target_named
from drygrad.dryrun.varying import Option, options, vary
from drygrad.worker.search.nodes import read, text_of

SOURCE = source_of("""
    import torch

    class Net(torch.nn.Module):
        def __init__(self, dim, scaled=False, other=1):
            super().__init__()
            self.scaled = scaled
            self.layer = torch.nn.Linear(dim, dim)

        def forward(self, x, mask=None, causal=False, kind="soft"):
            if mask is not None:
                x = x * mask
            if not causal:
                x = x + 1
            else:
                x = x + 2
            if kind == "soft":
                x = x.softmax(-1)
            elif kind in ("relu", "gelu"):
                x = x.relu()
            if self.scaled:
                x = x * 2
            if x is None:
                return x
            return self.layer(x)
""")
RAN = frozenset((10, 12, 13, 16, 17, 20, 22, 24))
MISSED = frozenset((11, 15, 18, 19, 21, 23))


def record(missed: frozenset[int] = MISSED) -> Record:
    target = target_named(SOURCE, "Net")
    assert target is not None
    planned = plan_runs(SOURCE, Path("/project/a.py"), target, RunOptions(root=Path("/project")))
    assert isinstance(planned, list)
    found = [{"name": "self", "text": 'Net(dim=64).to("cuda")'}, {"name": "x", "text": "torch.randn(2, 64)"}]
    data = {"search": {"found": True, "inputs": found}}
    return Record("1", planned[0], Result("passed", "sim", coverage=Coverage(RAN, missed), data=data), ())


async def nobody(_: Plan) -> Record:
    raise AssertionError


def asked(seen: Record, covering: frozenset[int] = frozenset()) -> list[RunOptions]:
    """Return the conditions of the runs that are made with other options, each of which covers some lines more."""
    told: list[RunOptions] = []

    async def again(how: RunOptions) -> Sequence[Record]:
        if how.uncovered:
            return []
        told.append(how)
        coverage = Coverage(covering, frozenset()) if covering else None
        return [replace(seen, result=replace(seen.result, coverage=coverage))]

    asyncio.run(vary(seen, again, nobody, 5.0))
    return told


def test_the_options_that_lead_to_what_was_left_out() -> None:
    assert [*options(record(), Coverage(RAN, MISSED))] == [
        Option("mask", None),
        Option("causal", "True"),
        Option("kind", "'relu'"),
        Option("kind", "'gelu'"),
        Option("scaled", "True", of_constructor=True),
        Option("x", "None"),
    ]


def test_each_is_given_beside_the_inputs_of_the_run() -> None:
    told = asked(record(frozenset((11, 15, 21))))
    given = {"self": 'Net(dim=64).to("cuda")', "x": "torch.randn(2, 64)"}
    assert [(dict(how.pinned), how.also) for how in told] == [
        (given, ("mask",)),
        ({**given, "causal": "True"}, ()),
        ({**given, "self": "Net(dim=64, scaled=True).to('cuda')"}, ()),
    ]


def test_an_option_is_not_tried_for_lines_that_have_run_by_now() -> None:
    assert len(asked(record(frozenset((18, 19))), frozenset((18, 19)))) == 1


def test_nothing_is_tried_without_time_or_where_all_has_run() -> None:
    async def again(_: RunOptions) -> Sequence[Record]:
        raise AssertionError

    assert asyncio.run(vary(record(), again, nobody, 0)) == []
    assert asyncio.run(vary(record(frozenset()), again, nobody, 5.0)) == []


def test_a_later_call_of_the_program_comes_before_inputs_that_are_searched() -> None:
    given = Program.plain(Path("/project/train.py"), "train.py", source_of("import a"))
    seen = record()
    seen = replace(seen, plan=replace(seen.plan, program=given, proposal=None))
    told: list[frozenset[int]] = []

    async def again(how: RunOptions) -> Sequence[Record]:
        told.append(how.uncovered)
        return []

    async def once(plan: Plan) -> Record:
        assert plan.program is not None
        assert plan.program.past == MISSED
        new = Coverage(RAN | {11, 15}, MISSED - {11, 15})
        return replace(seen, run_id="2", result=replace(seen.result, coverage=new))

    assert [found.run_id for found in asyncio.run(vary(seen, again, once, 5.0))] == ["2"]
    assert told[0] == MISSED - {11, 15}


def test_another_call_in_a_test_comes_before_inputs_that_are_searched() -> None:
    calls = source_of("from a import Net\nNet(4)(1)\nNet(4, True)(2)")
    target = target_named(SOURCE, "Net")
    assert target is not None
    callers = tuple(Caller(Path(f"/project/{n}.py"), f"{n}.py", calls, ("Net",), "a") for n in ("b", "c"))
    planned = plan_runs(SOURCE, Path("/project/a.py"), target, RunOptions(root=Path("/project"), callers=callers))
    assert isinstance(planned, list)
    seen = replace(record(), plan=planned[0])
    told: list[RunOptions] = []

    async def again(how: RunOptions) -> Sequence[Record]:
        told.append(how)
        return []

    assert asyncio.run(vary(seen, again, nobody, 5.0)) == []
    assert told[0].callers == callers[1:]


def test_inputs_are_searched_for_what_is_left_out_as_long_as_they_come_by_more() -> None:
    seen, told = record(), list[frozenset[int]]()

    async def again(how: RunOptions) -> Sequence[Record]:
        told.append(how.uncovered)
        new = Coverage(frozenset((11,)) if len(told) == 1 else RAN, frozenset())
        return [replace(seen, result=replace(seen.result, coverage=new))] if how.uncovered else []

    assert len(asyncio.run(vary(seen, again, nobody, 5.0))) == 1
    assert told[:2] == [MISSED, MISSED - {11}]
    assert not any(told[2:])


def test_what_has_a_default_is_proposed_where_lines_were_left_out() -> None:
    target = target_named(SOURCE, "Net")
    assert target is not None
    planned = plan_runs(SOURCE, Path("/project/a.py"), target, RunOptions(root=Path("/project"), uncovered=MISSED))
    assert isinstance(planned, list)
    assert planned[0].proposal is not None
    proposed = read(dict(planned[0].proposal.inputs))
    offered = {name: [text_of(one) for one in (node, *node.others)] for name, node in proposed.options}
    assert offered["causal"] == ["True"]
    assert offered["kind"] == ["'relu'", "'gelu'"]
    assert offered["mask"][0].startswith("(torch.arange")
    assert [name for name, _ in proposed.at(("self",)).options] == ["scaled", "other"]


def test_the_plan_searches_nothing_but_the_option() -> None:
    how = asked(record(frozenset((11,))))[0]
    target = target_named(SOURCE, "Net")
    assert target is not None
    planned = plan_runs(SOURCE, Path("/project/a.py"), target, how)
    assert isinstance(planned, list)
    plan: Plan = planned[0]
    assert plan.proposal is not None
    parts = {name: text_of(node) for name, node in read(dict(plan.proposal.inputs)).parts}
    assert parts.keys() == {"self", "x", "mask"}
    assert (parts["self"], parts["x"]) == ("Net(dim=64)", "torch.randn(2, 64)")


@pytest.mark.parametrize(
    "expression",
    [
        "torch.randn(2, 64)",
        "torch.rand(3)",
        "torch.randn(2, 3, 32, 16)",
        "torch.randint(0, 10, (2, 3, 4, 5))",
        "torch.randn(())",
        "torch.randint(0, 10, (2, 3))",
        "torch.randint(1, 4, (2,), dtype=torch.int32)",
        "torch.randn(2, dtype=torch.float64)",
        "'name'",
        "(torch.arange(8).expand(2, 8) < 7)",
    ],
)
def test_what_was_found_is_read_again(expression: str) -> None:
    assert text_of(read(dict(read_again(expression)))) == expression
