"""``drygrad run``: functions and scripts executed under instruments, their findings merged with those of a check."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace

from drygrad.dryrun.merge import Record
from drygrad.dryrun.outcome_words import NOTHING_RAN
from drygrad.model import SEVERITIES
from drygrad.walk import Projects

from .errors import Failure, complain
from .formats import diffs, render
from .main import INTERRUPTED
from .report import FileResult, Ran, Report
from .run_files import File, files_of, judged, with_mentioned
from .run_fixes import diff, fix, write
from .run_progress import Progress, drawing
from .run_watch import watch
from .running import Runner

NO_CLAIMS = frozenset(("DG901", "DG903"))
"""Codes of findings that say why a run could not be, or go on."""
OURS = frozenset({"error", "crashed"})
"""Outcomes that say that drygrad could not do its job."""


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return the exit status."""
    if (arguments.diff or arguments.watch) and arguments.output_format != "text":
        raise Failure("--diff and --watch print text; remove --output-format")
    if arguments.watch and (arguments.diff or arguments.fix or arguments.unsafe_fixes):
        raise Failure("--watch changes no files; remove --fix, --unsafe-fixes and --diff")
    projects = Projects()
    files = [*files_of(arguments, projects)]
    broken = [str(problem) for project in projects.all for problem in project.problems]
    for problem in broken:
        complain(problem)
    if arguments.watch:
        return _watch(arguments, projects)
    try:
        report = asyncio.run(report_of(files, arguments, projects))
    except KeyboardInterrupt:
        if any(file.outcomes for file in files):
            _show(_reported([judged(file) for file in files]), arguments)
        raise
    _show(report, arguments)
    return 2 if broken else _status(report, arguments)


async def report_of(files: Sequence[File], arguments: argparse.Namespace, projects: Projects) -> Report:
    """Run the files with workers of their own, and have them fixed if asked to."""
    runner = Runner(arguments)
    try:
        async with drawing(wanted=arguments.progress) as progress:
            return await report_by(runner, files, arguments, projects, progress)
    finally:
        await runner.close()


async def report_by(
    runner: Runner, files: Sequence[File], arguments: argparse.Namespace, projects: Projects, progress: Progress
) -> Report:
    """Run the files, and have them fixed if asked to; a difference is shown with the findings before it."""
    await runner.run(files, progress)
    files = with_mentioned(files, projects)
    before = {(file.path, file.qualname): (file.source, judged(file)) for file in files}
    if arguments.fix or arguments.unsafe_fixes or arguments.diff:
        files = await fix(files, runner, progress, projects, unsafe=arguments.unsafe_fixes)
    if not arguments.diff:
        write(files)
        return _reported([judged(file) for file in files])
    results: list[tuple[FileResult, list[Ran]]] = []
    for file in files:  # the repaired text may come to a fault in a file that was not mentioned before
        source, (result, ran) = before.get((file.path, file.qualname)) or (file.source, judged(file))
        results.append((replace(result, fixed=file.fixed, diff=diff(file, source)), ran))
    return replace(_reported(results), written=False)


def _reported(results: Sequence[tuple[FileResult, list[Ran]]]) -> Report:
    return Report(tuple(result for result, _ in results), runs=tuple(ran for _, each in results for ran in each))


def _show(report: Report, arguments: argparse.Namespace) -> None:
    if arguments.diff:
        sys.stdout.write(diffs(report, sys.stdout))
        sys.stderr.write(render(report, "summary", sys.stderr))
    else:
        sys.stdout.write(render(report, arguments.output_format, sys.stdout))


def _watch(arguments: argparse.Namespace, projects: Projects) -> int:
    def show(files: Sequence[File]) -> None:
        _show(_reported([judged(file) for file in with_mentioned(files, projects)]), arguments)
        sys.stdout.flush()

    async def watching() -> None:
        runner = Runner(arguments)
        try:
            async with drawing(wanted=arguments.progress) as progress:
                await watch(lambda: [*files_of(arguments, projects)], runner, progress, show)
        finally:
            await runner.close()

    try:
        asyncio.run(watching())
    except KeyboardInterrupt:
        sys.stderr.write("\n")
    return 0


def _status(report: Report, arguments: argparse.Namespace) -> int:
    outcomes = [ran.outcome.result.outcome for ran in report.runs if isinstance(ran.outcome, Record)]
    if "cancelled" in outcomes:
        return INTERRUPTED
    if OURS.intersection(outcomes) or (NOTHING_RAN.issuperset(outcomes) and not _saw_a_fault(report, arguments)):
        return 2
    return int(report.reaches(arguments.fail_on))


def _saw_a_fault(report: Report, arguments: argparse.Namespace) -> bool:
    """Say whether a run that could not go on had seen a fault by then."""
    grave = SEVERITIES[: SEVERITIES.index(arguments.fail_on) + 1]
    found = (item.finding for item in report.items)
    return any(f.run is not None and f.code not in NO_CLAIMS and f.severity in grave for f in found)
