"""The process that repeats the tests of a session: it gets them as JSON on stdin, and tells what was seen on stdout.

The tests of a file run together first. What is seen then is told only if the run of one test alone shows it, too: so
it is told of that test, and is no matter of what other tests have left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from drygrad.children import hear_of_ends
from drygrad.cli.arguments import parsed
from drygrad.cli.formats.text import Block
from drygrad.cli.report import Item
from drygrad.cli.run_files import File, file_of, judged, with_mentioned
from drygrad.cli.run_progress import Progress
from drygrad.cli.running import Runner
from drygrad.cli.terminal import one_line, plain
from drygrad.dryrun import outcome_words
from drygrad.dryrun.capacity import parallel_runs
from drygrad.dryrun.lane import in_turn
from drygrad.dryrun.launches.launch import Launch
from drygrad.dryrun.merge import Record
from drygrad.dryrun.service import DryRuns
from drygrad.dryrun.workspace_imports import imported_files
from drygrad.static.source import Source
from drygrad.walk import Projects

from .groups import Group, Test, groups_of

NO_CLAIMS = frozenset(("DG901", "DG902", "DG903", "DG904", "DG905", "DG906", "DG907"))
"""What says that a run could not go on, or repeats an error that pytest has told or that is of the sandbox only."""
MOST_ROUNDS = 5
"""A run tells one error: so often the tests of a group that have not met it are repeated without the one that has."""
MOST_ALONE = 10
"""So many tests of a group are repeated alone for what the run of the group cannot say whose it is."""


class Repeating:
    """The work of one session."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self._asked = asked
        self._root = Path(asked["root"])
        self._projects = Projects()
        self._runs = DryRuns(parallel=parallel_runs())
        self._turns = asyncio.Semaphore(parallel_runs())
        self._told: set[tuple[str, str, int]] = set()

    async def work(self) -> None:
        """Repeat all tests, as long as there is time."""
        work = {asyncio.ensure_future(self._group(group)): group for group in groups_of(self._asked["tests"])}
        try:
            done, left = await asyncio.wait(work, timeout=self._asked["seconds"])
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
            for text in dict.fromkeys(str(error) for task in done if (error := task.exception()) is not None):
                _say("note", text=text)
        finally:
            await self._runs.close()
        if left:
            count = sum(len(work[task].tests) for task in left)
            _say("note", text=f"{count} tests not repeated in full: --drygrad-time={self._asked['seconds']:g} is over")

    async def _group(self, group: Group) -> None:
        async with self._turns:
            if not await in_turn(self._has_torch, group):
                return
            rest: Group | None = group
            for _ in range(MOST_ROUNDS):
                rest = await self._round(rest) if rest is not None else None

    async def _round(self, group: Group) -> Group | None:
        """Repeat a group, and each test alone that shows something; return the others where an error hides them."""
        file = await self._ran(group)
        if group.alone:
            self._tell(group.tests[0], file)
            return None
        suspected = self._suspected(group, file)
        for test in suspected:
            self._tell(test, await self._ran(Group((test,))))
        others = tuple(test for test in group.tests if test not in suspected)
        failed = any(record.result.outcome != "passed" for record in _records(file))
        return Group(others) if failed and suspected and others else None

    def _has_torch(self, group: Group) -> bool:
        """Say whether a file of tests, or what it imports of the project, has to do with torch."""
        path = self._root / group.file
        try:
            own = Source(path.read_text("utf-8", "replace"))
            beside = [folder / "conftest.py" for folder in path.parents if folder.is_relative_to(self._root)]
            files = {path, *beside, *imported_files(own, path, self._root, {})}
            return any("torch" in file.read_text("utf-8", "replace") for file in files if file.is_file())
        except OSError:
            return False

    async def _ran(self, group: Group) -> File:
        """Return the file of a group with what its run has seen."""
        device = [f"--device={self._asked['device']}"] if self._asked["device"] else []
        verify = [] if group.alone else ["--verify-time=0.01"]
        bounds = ["--experiment-time=0", f"--timeout={group.timeout}", *verify]
        arguments = parsed(["run", f"--python={sys.executable}", *device, *bounds, "--no-progress", group.file])
        file = await in_turn(file_of, str(self._root / group.file), None, self._projects)
        words = (*self._asked["options"], *(f"{self._root}/{test.nodeid}" for test in group.tests))
        folder = Path(self._asked["folder"])
        file.launch = Launch("tests", "pytest", file.path, words, folder=folder)
        await Runner(arguments, self._runs).run([file], Progress())
        self._note(group, file)
        return file

    def _note(self, group: Group, file: File) -> None:
        """Say why a run could not be carried out; what ends a group by one of its tests is told of that alone."""
        for record in _records(file):
            outcome, error = record.result.outcome, record.result.error
            found = (*record.findings, *record.elsewhere)
            is_told = outcome == "passed" or (outcome == "failed" and any(f.code not in NO_CLAIMS for f in found))
            if is_told or not group.tests[0].passed or (_named(file) and not group.alone):
                continue
            why = f": {error.type}: {error.message.partition(chr(10))[0]}" if error is not None else ""
            name = group.tests[0].nodeid if group.alone else f"{group.file} ({len(group.tests)} tests)"
            _say("note", text=f"{name}: in the sandbox: {outcome_words.ended(record.result)}{why}")

    def _suspected(self, group: Group, file: File) -> Sequence[Test]:
        """Return the tests of a group that what its run has seen may be of; each is to be run alone."""
        named = _named(file)
        known = [test for test in group.tests if test.nodeid in named]
        return known or (group.tests[:MOST_ALONE] if any(self._claims([file])) else ())

    def _tell(self, test: Test, file: File) -> None:
        for item in self._claims([file]):
            found = item.finding
            key = (found.code, item.path, found.span.start.line)
            if key in self._told:
                continue
            self._told.add(key)
            place = f"{item.path}:{found.span.start.line}:{found.span.start.column + 1}"
            summary = f"{place}: {found.severity}[{found.code}]: {one_line(found.message)}"
            text = plain("\n".join(Block(item, coloured=False, tried=True).lines()))
            _say("finding", nodeid=test.nodeid, severity=found.severity, summary=summary, text=text)

    def _claims(self, files: Sequence[File]) -> Iterator[Item]:
        """Yield what runs have seen, in whatever files of the project, as they are shown from the root."""
        for file in with_mentioned(files, self._projects):
            for item in judged(file)[0].items:
                if item.finding.run is not None and item.finding.code not in NO_CLAIMS:
                    yield replace(item, path=_shown(item.path, self._root))


def _named(file: File) -> set[str]:
    """Return the tests in which something was seen, as the run names them."""
    faults = (fault for record in _records(file) for fault in record.result.faults)
    return {str(name) for fault in faults if (name := fault.facts.get("test"))}


def _records(file: File) -> Iterator[Record]:
    return (outcome for outcome in file.ended if isinstance(outcome, Record))


def _shown(path: str, root: Path) -> str:
    return str(Path(path).relative_to(root)) if Path(path).is_relative_to(root) else path


def _say(event: str, **more: Any) -> None:
    sys.stdout.write(json.dumps({"event": event, **more}) + "\n")
    sys.stdout.flush()


def _end_with_the_session() -> None:
    """End when nobody is there to be told: the session closes our stdin."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdin.read()
    os._exit(0)


def main() -> None:
    """Do the work of one session."""
    hear_of_ends()
    asked = json.loads(sys.stdin.readline())
    os.chdir(asked["root"])
    threading.Thread(target=_end_with_the_session, daemon=True).start()
    asyncio.run(Repeating(asked).work())
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
