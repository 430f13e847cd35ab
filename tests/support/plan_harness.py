"""Plans of small programs, shown as a reader would say them."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

from drygrad.dryrun.plan import Missing, Plan, RunOptions
from drygrad.dryrun.planning import plan_runs
from drygrad.dryrun.targets import target_named
from drygrad.static.source import Source

WITHOUT_SEARCH = RunOptions(search_seconds=0)
PATH = Path("/project/train.py")


def source_of(text: str) -> Source:
    return Source(dedent(text.removeprefix("\n")))


def plans(text: str, qualname: str | None, options: RunOptions | None = None) -> list[Plan] | Missing:
    source = source_of(text)
    target = target_named(source, qualname)
    assert target is not None, qualname
    return plan_runs(source, PATH, target, options or WITHOUT_SEARCH)


def plan(text: str, qualname: str | None, options: RunOptions | None = None) -> Plan:
    found = plans(text, qualname, options)
    assert not isinstance(found, Missing), found.message
    assert len(found) == 1
    return found[0]


def missing(text: str, qualname: str | None, options: RunOptions | None = None) -> Missing:
    found = plans(text, qualname, options)
    assert isinstance(found, Missing)
    return found


def steps(found: Plan) -> list[str]:
    """Return the first line of each step of the setup, imports and definitions left out."""
    texts: list[str] = []
    setup: list[Any] = found.as_json()["setup"] or []
    for step in setup:
        if not isinstance(step, dict):
            line = found.source.line_text(step[0]).encode()[step[1] :].decode()
            if not line.startswith(("import ", "from ", "def ", "class ", "async def ")):
                texts.append(line)
        elif "bind" in step:
            texts.append(f"<{step['bind']} = {step['to']}>")
        else:
            texts.append(f"<with {step['enter']}>")
    return texts


def arguments(found: Plan) -> list[tuple[str | None, str]]:
    return [(argument.name, argument.star + argument.text) for argument in found.arguments]
