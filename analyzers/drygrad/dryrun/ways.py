"""What programs came by that did not come to a target: for others that they did not come by, they need not run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from drygrad.dryrun.plan import Plan
from drygrad.dryrun.program import Program
from drygrad.dryrun.result import Result
from drygrad.dryrun.workspace_imports import imported_files
from drygrad.static.source import SourceError, read

MOST = 64


@dataclass(frozen=True)
class _Way:
    """How far a program came: the blocks that it entered, by their files, and what it said when it ended."""

    reason: str
    lines: Mapping[str, frozenset[int]]
    conditions: tuple[Any, ...]
    """What was executed, and under which bounds."""
    stamps: Mapping[Path, tuple[int, int] | None]
    """The files of the workspace that it executes, as they were."""


class Ways:
    """The ways of the programs that were run in vain, until something changes that they depend on."""

    def __init__(self) -> None:
        self._known: dict[Path, _Way] = {}

    def learn(self, plan: Plan, result: Result) -> None:
        """Take note of where a program has come to that did not come to the target of a plan."""
        program = plan.program
        if program is None or result.reason is None:
            return
        buffers = {Path(path): text for path, text in plan.options.buffers.items()}
        files = imported_files(program.source, program.path, plan.options.root or program.path.parent, buffers)
        lines = {**_blocks_elsewhere(result), str(plan.path): result.blocks}
        stamps = {path: _stamp(path) for path in files | {program.path, plan.path}}
        while len(self._known) >= MOST:
            del self._known[next(iter(self._known))]
        self._known[program.path] = _Way(result.reason, lines, _conditions(program, plan), stamps)

    def in_vain(self, plan: Plan) -> str | None:
        """Return what the program of a plan said when it ended without having come by the target, if it has."""
        program, function = plan.program, plan.target.function
        way = self._known.get(program.path) if program is not None else None
        if program is None or function is None or way is None:
            return None
        if way.conditions != _conditions(program, plan) or any(_stamp(p) != known for p, known in way.stamps.items()):
            del self._known[program.path]
            return None
        return way.reason if function.body[0].lineno not in way.lines.get(str(plan.path), ()) else None


def _blocks_elsewhere(result: Result) -> dict[str, frozenset[int]]:
    entries = cast("list[Mapping[str, Any]]", result.data.get("blocks_elsewhere") or [])
    return {str(entry["path"]): frozenset(entry["lines"]) for entry in entries}


def _conditions(program: Program, plan: Plan) -> tuple[Any, ...]:
    options = plan.options
    texts = {**options.buffers, str(plan.path): plan.source.text} if _differs(plan) else dict(options.buffers)
    bounds = (options.program_seconds, options.timeout, options.loop_limit, options.seed, options.memory_limit)
    return (program.source.text, program.launch.as_json(), *bounds, sorted(texts.items()))


def _differs(plan: Plan) -> bool:
    """Say whether the text of the target's file is another one than that on the disk."""
    try:
        return read(plan.path).text != plan.source.text
    except (OSError, SourceError):
        return True


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size
