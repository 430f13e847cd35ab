"""Examines programs as drygrad's users do: a check of the file and a dry run, merged, with fixes tried.

Each program stands in a folder of its own, so that neither its twin nor another program tells anything about it.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from drygrad.cli.inspection import Job, inspect
from drygrad.dryrun.lane import in_turn
from drygrad.dryrun.merge import Merged, Record, merge
from drygrad.dryrun.plan import Missing, RunOptions
from drygrad.dryrun.service import DryRuns, Home
from drygrad.dryrun.targets import Target, target_named, targets
from drygrad.model import Finding
from drygrad.settings import Settings
from drygrad.static.source import Source

from .programs import Case, Program

PARALLEL = 2
TIMEOUT, SEARCHING, VERIFYING = 60.0, 8.0, 60.0
"""Seconds; more than users give by default: the outcome must not depend on what else the machine is doing."""


@dataclass(frozen=True)
class Examined:
    """What drygrad says of one program: its check alone, and both witnesses together.

    ``outcomes`` are those of the runs by target, ``no-inputs`` where there was none.
    """

    source: Source
    static: Sequence[Finding]
    merged: Merged
    outcomes: dict[str, str]


class Examiner:
    """The workers, and a folder for the programs. Use it as an asynchronous context."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="corpus-")
        self._root = Path(self._folder.name)
        self._home = Home(Path(sys.executable), self._root)
        self._runs = DryRuns(parallel=PARALLEL)

    async def __aenter__(self) -> Examiner:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runs.close()
        self._folder.cleanup()

    async def examine(self, program: Program) -> Examined:
        """Check a program, run its target, and try the fixes."""
        name = program.path.stem.removesuffix("_fixed")
        folder = Path(tempfile.mkdtemp(dir=self._root))
        path = folder / f"{name}.py"
        path.write_text(program.text, encoding="utf-8")
        source = Source(program.text)
        static = await in_turn(_checked, path, folder)
        chosen = targets(source) if program.target is None else [_named(source, program.target)]
        records: list[Record] = []
        outcomes: dict[str, str] = {}
        for target in chosen:
            found = await self._run(program, source, path, target)
            outcomes[target.qualname or "script"] = (
                "no-inputs" if isinstance(found, Missing) else " ".join(record.result.outcome for record in found)
            )
            if not isinstance(found, Missing):
                records += [await self._verified(record, static) for record in found]
        return Examined(source, static, await in_turn(merge, static, records, source), outcomes)

    async def _run(self, program: Program, source: Source, path: Path, target: Target) -> list[Record] | Missing:
        options = RunOptions(root=path.parent, gpu_memory=program.gpu_memory, timeout=TIMEOUT, search_seconds=SEARCHING)
        return await self._runs.dry_run(source, path, target, self._home, options, Settings())

    async def _verified(self, record: Record, static: Sequence[Finding]) -> Record:
        return await self._runs.verify(record, static, self._home, Settings(), VERIFYING)


def _checked(path: Path, root: Path) -> list[Finding]:
    return [item.finding for item in inspect(Job(path, path.name, Settings(), root=root)).items]


def _named(source: Source, qualname: str) -> Target:
    target = target_named(source, qualname)
    if target is None:
        raise ValueError(f"there is no {qualname}")
    return target


async def examine_all(chosen: Sequence[Case], told: Callable[[Case, Examined, Examined], None]) -> None:
    """Examine cases, a few at a time; ``told`` hears of each with its faulty and its fixed program."""
    slots = asyncio.Semaphore(PARALLEL)
    async with Examiner() as examiner:

        async def one(case: Case) -> None:
            async with slots:
                told(case, await examiner.examine(case.faulty), await examiner.examine(case.fixed))

        await asyncio.gather(*(one(case) for case in chosen))
