"""Globals that functions set: who reads one runs after who sets it, or says nothing of the program."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plan_harness import plan, source_of, steps

from drygrad.dryrun.findings import findings
from drygrad.dryrun.merge import Record, merge
from drygrad.dryrun.plan import Plan
from drygrad.dryrun.result import ErrorInUserCode, Fault, Place, Result
from drygrad.settings import Settings

TIMER = """\
import time

started = None
options = {}


def start():
    global started
    started = time.time()


def begin():
    start()


def set_up(width):
    options["width"] = width


def elapsed():
    return time.time() - started


def layer(width):
    return width * options["width"]
"""


def failed(found: Plan, line: int) -> Result:
    at = Place(str(found.path), line)
    fault = Fault("DG907", "TypeError: of an absent value", at, severity="error")
    return Result("failed", device="sim", faults=(fault,), error=ErrorInUserCode("TypeError", "", at))


@pytest.mark.parametrize("call", ["start()", "begin()", "done = begin()", "for _ in range(3):\n    begin()"])
def test_a_call_that_sets_what_the_target_reads_runs_before_it(call: str) -> None:
    found = plan(f"{TIMER}\n{call}\nprint('done')\nelapsed()\n", "elapsed")
    assert call.partition("\n")[0] in steps(found)
    assert "print('done')" not in steps(found)
    assert not found.partial


def test_a_call_that_fills_an_empty_mapping_runs_before_who_reads_it() -> None:
    found = plan(TIMER + "\nset_up(4)\nstart()\nlayer(2)\n", "layer")
    assert steps(found) == ["started = None", "options = {}", "set_up(4)"][1:]


def test_a_global_that_has_a_value_of_its_own_makes_no_call_necessary() -> None:
    text = "best = 0.5\n\ndef train():\n    global best\n    best = 0.7\n\ndef test(x):\n    return x / best\n\n"
    found = plan(text + "train()\ntest(1.0)\n", "test")
    assert steps(found) == ["best = 0.5"]
    assert found.partial


def test_a_function_that_alone_sets_what_it_reads_is_whole() -> None:
    text = "count = 0\n\ndef step():\n    global count\n    count += 1\n\ndef main():\n    step()\n\nmain()\n"
    assert not plan(text, "step").partial


def test_without_the_call_an_error_is_none_of_the_programs() -> None:
    found = plan(TIMER, "elapsed")
    told = findings(failed(found, 22), found, found.source, Settings(), "r1")
    assert [(f.code, f.severity) for f in told] == [("DG907", "hint")]


SCRIPT = """\
import torch

def total(x):
    return x.sum() / state

state = 4
print(total(torch.ones(3)))
"""


def test_a_script_that_passes_denies_the_error_of_a_part() -> None:
    source = source_of(SCRIPT)
    part, whole = plan(SCRIPT, "total"), plan(SCRIPT, None)
    result = failed(part, 4)
    record = Record("r1", part, result, tuple(findings(result, part, source, Settings(), "r1")))
    assert [f.code for f in record.findings] == ["DG907"]
    script = Record("r2", whole, Result("passed", device="sim", blocks=frozenset({4, 1})))
    assert merge([], [record, script], source).findings == ()
    for other in (
        replace(script, result=replace(script.result, outcome="failed")),
        replace(script, result=replace(script.result, blocks=frozenset({1}))),
        replace(script, plan=part),
    ):
        assert [f.code for f in merge([], [record, other], source).findings] == ["DG907"]
    beside = replace(record, result=replace(result, error=None))
    assert [f.code for f in merge([], [beside, script], source).findings] == ["DG907"]
