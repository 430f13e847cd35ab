"""How much of a target has run: what the woven blocks tell is compared with what Python's own tracing sees."""

from __future__ import annotations

import ast
import builtins
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from drygrad.dryrun.coverage import coverage
from drygrad.dryrun.outcome_words import ended
from drygrad.dryrun.plan import Plan, RunOptions
from drygrad.dryrun.result import Coverage, Outcome, Result
from drygrad.dryrun.targets import target_named
from drygrad.static.source import Source
from drygrad.worker import weave

PROGRAM = '''
def branches(x, mode="a"):
    """Text."""
    if mode == "b":
        x = x + 1
        return x
    elif mode == "a":
        x = x + 2
    else:
        x = 0
    return x

def leaves(x):
    for i in range(4):
        if i == 2:
            break
        x = x + i
    else:
        x = 0
    while x > 100:
        x = x - 1
        if x == 50:
            continue
    return x

def handles(x):
    try:
        x = x + 1
        raise ValueError
        x = x + 2
    except KeyError:
        x = 0
    except ValueError:
        x = 3
        x = x + 1
    finally:
        x = x + 5
    with open("/dev/null"):
        x = x + 1
    return x

def within(x):
    def never(y):
        z = y
        return z
    def called(y):
        if y > 5:
            return y
        return y + 1
    class Held:
        a = 1
        def method(self):
            return 1
    return called(x)

def matches(x):
    match x:
        case 0:
            y = 1
        case _:
            y = 2
    return y
'''
NAMES = ("branches", "leaves", "handles", "within", "matches")


def seen_by_blocks(name: str) -> Coverage | None:
    """Return the coverage of a call, by the blocks that it enters."""
    entered: set[int] = set()
    known: dict[str, Any] = {
        weave.BLOCK: entered.add,
        weave.ASSIGNED: ignored,
        weave.RETURNED: returned,
        weave.SWALLOWED: ignored,
        weave.LOOP: loop,
    }
    before = {key: getattr(builtins, key, None) for key in known}
    for key, value in known.items():
        setattr(builtins, key, value)
    try:
        names: dict[str, Any] = {}
        exec(compile(weave.weave(ast.parse(PROGRAM), observe=True), "<woven>", "exec"), names)
        entered.clear()
        names[name](1)
    finally:
        for key, value in before.items():
            delattr(builtins, key) if value is None else setattr(builtins, key, value)
    return covered("passed", frozenset(entered), name)


def covered(outcome: Outcome, blocks: frozenset[int], name: str | None) -> Coverage | None:
    source = Source(PROGRAM)
    target = target_named(source, name)
    assert target is not None
    return coverage(Plan(source, Path("a.py"), target, (), (), None, RunOptions()), Result(outcome, blocks=blocks))


def ignored(*_: object) -> None: ...


def returned(_: int, value: object) -> object:
    return value


def loop(value: object, *_: object) -> object:
    return Endless() if value is None else value


class Endless:
    """A loop that always may go on."""

    def more(self) -> bool:
        return True

    def over(self) -> bool:
        return False


def seen_by_tracing(name: str) -> set[int]:
    """Return the lines of a function that run in a call, as Python tells them."""
    names: dict[str, Any] = {}
    exec(compile(PROGRAM, "<traced>", "exec"), names)
    lines: set[int] = set()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename == "<traced>" and event == "line":
            lines.add(frame.f_lineno)
        return trace

    sys.settrace(trace)
    try:
        names[name](1)
    finally:
        sys.settrace(None)
    return lines


@pytest.mark.parametrize("name", NAMES)
def test_the_lines_that_are_told_are_those_that_ran(name: str) -> None:
    told = seen_by_blocks(name)
    assert told is not None
    traced = seen_by_tracing(name)
    assert told.ran == traced & (told.ran | told.missed)
    assert told.missed


def test_nothing_is_told_of_a_script_and_of_a_run_that_ended_early() -> None:
    entered = frozenset((3, 4, 7, 8, 11))
    assert covered("failed", entered, "branches") is None
    assert covered("passed", entered, None) is None
    assert covered("passed", entered, "branches") is not None


def test_two_runs_cover_more_than_one() -> None:
    one, other = Coverage(frozenset((1, 2)), frozenset((3, 4, 5))), Coverage(frozenset((1, 3)), frozenset((2, 4, 5)))
    assert (one | other).said() == "3 of 5 lines"
    assert one.is_partial
    assert not (one | other).is_partial


def test_words_tell_what_was_not_run() -> None:
    half = Coverage(frozenset((1,)), frozenset((2,)))
    assert ended(Result("passed", "sim", coverage=half)) == "passed on sim, 1 of 2 lines"
    assert ended(Result("passed", "sim", coverage=Coverage(frozenset((1, 2)), frozenset()))) == "passed on sim"
