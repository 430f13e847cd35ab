"""What the tools do: the commands' own work, with workers that stay warm from call to call."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drygrad.cli.arguments import parsed
from drygrad.cli.check import planned
from drygrad.cli.errors import Failure
from drygrad.cli.forecast import VERSION, entry, forecast_by, text_of, the_one
from drygrad.cli.formats import json as json_format
from drygrad.cli.inspection import Job, inspect
from drygrad.cli.report import FileResult, Report
from drygrad.cli.run import report_by
from drygrad.cli.run_files import File, files_of
from drygrad.cli.run_progress import Progress
from drygrad.cli.running import Runner
from drygrad.cli.terminal import plain
from drygrad.dryrun.capacity import parallel_runs
from drygrad.dryrun.lane import in_turn
from drygrad.dryrun.service import DryRuns
from drygrad.result_cache import cache_folder
from drygrad.walk import Projects

from .places import Places
from .words import by_gravity

MOST_FINDINGS = 200
MOST_SHAPES = 60
"""Of each run: agents have room for so much; the command line tells all."""


@dataclass(frozen=True)
class Done:
    """What was found, and what could not be read or set on the way."""

    report: Report
    problems: Sequence[str]


class Work:
    """The work of one session."""

    def __init__(self, places: Places, arguments: argparse.Namespace) -> None:
        self.places = places
        self._arguments = arguments
        self._runs: DryRuns | None = None

    async def close(self) -> None:
        """End the workers."""
        if self._runs is not None:
            await self._runs.close()

    async def check(self, path: str, options: Sequence[str], progress: Progress) -> Done:
        """Check files. Failure where none of them can be read."""
        arguments = parsed(["check", *options, "--no-progress", self.places.shown(path)])
        projects = Projects()
        plan = await in_turn(planned, arguments, projects, cache_folder())
        if plan.problems:
            raise Failure("\n".join(plan.problems))
        jobs = [job for job in plan.jobs if self.places.hold(job.path)]
        progress.expect(len(jobs))
        results = [await self._inspected(job, progress) for job in jobs]
        failures = [f"{result.path}: {problem}" for result in results for problem in result.problems]
        if failures and all(result.failed for result in results):
            raise Failure("\n".join(failures))
        return Done(Report(tuple(results), written=not arguments.diff), [*_broken(projects), *failures])

    async def _inspected(self, job: Job, progress: Progress) -> FileResult:
        progress.begin(job.shown)
        result = await in_turn(inspect, job)
        progress.end(job.shown)
        return result

    async def run(
        self, target: str | None, options: Sequence[str], words: Sequence[str] | None, progress: Progress
    ) -> Done:
        """Run functions or programs under instruments. Failure where they cannot be run."""
        self._consent()
        arguments = self._parsed("run", target, options, words)
        projects = Projects()
        files = await in_turn(self._files, arguments, projects)
        self._runs = self._runs or DryRuns(parallel=parallel_runs())
        report = await report_by(Runner(arguments, self._runs), files, arguments, projects, progress)
        return Done(report, _broken(projects))

    async def forecast(
        self, target: str | None, options: Sequence[str], words: Sequence[str] | None, progress: Progress
    ) -> tuple[str, dict[str, Any]]:
        """Forecast what a program takes on a GPU; return it in words and as JSON. Failure where that cannot be."""
        self._consent()
        arguments = self._parsed("forecast", target, options, words)
        file = the_one(await in_turn(self._files, arguments, Projects()))
        self._runs = self._runs or DryRuns(parallel=parallel_runs())
        outcomes, what_if = await forecast_by(Runner(arguments, self._runs), file, arguments, progress)
        text = "\n".join(text_of(file, outcome, what_if, colour=False) for outcome in outcomes)
        told = [entry(file, outcome, what_if) for outcome in outcomes]
        return plain(text), {"version": VERSION, "forecasts": told}

    def _parsed(
        self, command: str, target: str | None, options: Sequence[str], words: Sequence[str] | None
    ) -> argparse.Namespace:
        named = [self._target(target)] if target else []
        chosen = [f"--python={self._arguments.python}"] if self._arguments.python else []
        behind = ["--", *words] if words is not None else []
        arguments = parsed([command, *chosen, *options, "--no-progress", *named, *behind])
        arguments.launcher = self._arguments.launcher
        return arguments

    def _consent(self) -> None:
        if not self._arguments.trust:
            raise Failure(
                "dry runs are off: this tool executes the project's code, in a sandbox. The user allows it by starting "
                "the server as `drygrad mcp --trust`; the tools `check` and `explain` execute nothing"
            )

    def _target(self, target: str) -> str:
        name, separator, qualname = target.partition("::")
        return f"{self.places.shown(name)}{separator}{qualname}"

    def _files(self, arguments: argparse.Namespace, projects: Projects) -> list[File]:
        files = [*files_of(arguments, projects)]
        if arguments.target and Path(arguments.target).is_dir():
            return [file for file in files if self.places.hold(file.path)]
        for file in files:
            self.places.check(file.path)
        return files


def _broken(projects: Projects) -> list[str]:
    return [str(problem) for project in projects.all for problem in project.problems]


def report_json(report: Report) -> dict[str, Any]:
    """Return a report as the command line's JSON has it, cut where an agent has no room for it."""
    said: dict[str, Any] = json.loads(json_format.render(report, coloured=False))
    left_out = max(0, len(said["findings"]) - MOST_FINDINGS)
    if left_out:
        said["findings"] = [json_format.finding(item) for item in by_gravity(report.items)[:MOST_FINDINGS]]
    for run in said["runs"]:
        left_out += max(0, len(run["shapes"]) - MOST_SHAPES)
        run["shapes"] = run["shapes"][:MOST_SHAPES]
    return {**said, "left_out": left_out}
