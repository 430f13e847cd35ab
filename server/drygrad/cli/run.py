"""``drygrad run``: functions and scripts executed under instruments, their findings merged with those of a check."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from drygrad.dryrun.findings import missing_finding
from drygrad.dryrun.merge import Merged, Record, merge
from drygrad.dryrun.plan import Missing, RunOptions
from drygrad.dryrun.report import target_name
from drygrad.dryrun.service import DryRuns, Home
from drygrad.dryrun.supervisor import NO_TORCH
from drygrad.dryrun.targets import Target, target_named, targets
from drygrad.interpreters import Interpreter, find_interpreter, python_in, site_packages
from drygrad.model import Finding
from drygrad.options import did_you_mean
from drygrad.project import Project
from drygrad.settings import Settings
from drygrad.static.rules.reports.no_inputs import NoInputs
from drygrad.static.source import Source, SourceError, read

from .errors import Failure, complain
from .formats import render
from .inspection import Job, inspect, item_of
from .main import INTERRUPTED
from .report import FileResult, Ran, Report
from .run_progress import ProgressLine, drawing
from .walk import Projects, files_in

OURS = frozenset({"error", "crashed"})
"""Outcomes that say that drygrad could not do its job."""


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return the exit status."""
    projects = Projects()
    files = [*_files(arguments.target, projects)]
    broken = [str(problem) for project in projects.all for problem in project.problems]
    for problem in broken:
        complain(problem)
    asyncio.run(_run_all(files, arguments))
    results = [judged(file) for file in files]
    report = Report(tuple(result for result, _ in results), runs=tuple(ran for _, each in results for ran in each))
    sys.stdout.write(render(report, arguments.output_format, sys.stdout))
    return 2 if broken else _status(report, arguments)


def _status(report: Report, arguments: argparse.Namespace) -> int:
    outcomes = [ran.outcome.result.outcome for ran in report.runs if isinstance(ran.outcome, Record)]
    if "cancelled" in outcomes:
        return INTERRUPTED
    if {*outcomes} <= {"no-inputs"} or OURS.intersection(outcomes):
        return 2
    return int(report.reaches(arguments.fail_on))


@dataclass
class File:
    """One file: what of it is run, and what the runs brought. ``whole`` unless one function was named."""

    shown: str
    path: Path
    source: Source
    project: Project
    targets: Sequence[Target]
    whole: bool
    outcomes: list[Record | Missing] = field(default_factory=list[Record | Missing])

    @property
    def records(self) -> list[Record]:
        """The runs that took place."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, Record)]

    @property
    def settings(self) -> Settings:
        """The settings that hold for the file."""
        return self.project.settings_for(self.path)


def judged(file: File) -> tuple[FileResult, list[Ran]]:
    """Return the findings of both witnesses, and the runs with what each disproved."""
    merged = merge(_static(file), file.records, file.source)
    missing = [outcome for outcome in file.outcomes if isinstance(outcome, Missing)]
    told = [f for m in missing for f in missing_finding(m, file.source, file.settings)]
    every = sorted([*merged.findings, *told], key=lambda finding: finding.span)
    found = [finding for finding in every if not (file.whole and finding.code == NoInputs.code)]
    items = tuple(item_of(file.shown, file.source, finding) for finding in found)
    lines = tuple(file.source.lines)
    ran = [Ran(file.shown, outcome, _refuted(merged, outcome), lines) for outcome in file.outcomes]
    return FileResult(file.shown, items), ran


def _refuted(merged: Merged, outcome: Record | Missing) -> tuple[Finding, ...]:
    if isinstance(outcome, Missing):
        return ()
    return tuple(refutation.finding for refutation in merged.refuted if refutation.run_id == outcome.run_id)


def _static(file: File) -> list[Finding]:
    """Return the findings of a check: of the whole file, or of the function that was named."""
    installed = site_packages(find_interpreter(file.project.root))
    job = Job(file.path, file.shown, file.settings, root=file.project.root, site_packages=installed)
    result = inspect(job)
    for problem in result.problems:
        complain(f"{file.shown}: {problem}")
    found = [item.finding for item in result.items]
    return found if file.whole else [f for f in found if any(f.span.overlaps(t.span) for t in file.targets)]


def _files(given: str, projects: Projects) -> Iterator[File]:
    """Yield what is to be run. Failure where there is no such thing."""
    name, _, qualname = given.partition("::")
    if Path(name).is_dir():
        if qualname:
            raise Failure(f"{name} is a folder; name the file that has {qualname}")
        for shown in files_in(name, projects):
            if shown.endswith(".py"):
                yield _file(shown, None, projects)
        return
    if not Path(name).exists():
        raise Failure(f"{name}: no such file or folder")
    yield _file(name, qualname or None, projects)


def _file(shown: str, qualname: str | None, projects: Projects) -> File:
    path = Path(shown)
    if path.suffix == ".ipynb":
        raise Failure(f"{shown}: a notebook can be checked, but not run; its editor runs its cells")
    try:
        source = read(path)
        known = targets(source)
        source.tree  # noqa: B018 - parses, or says why it cannot
    except SourceError as error:
        line, column = error.position
        raise Failure(f"{shown}: {error.message} (line {line}, column {column + 1})") from error
    except OSError as error:
        raise Failure(f"{shown}: cannot read: {error.strerror or error}") from error
    project = projects.of_folder(path.parent)
    if qualname is None:
        return File(shown, path, source, project, [t for t in known if not t.skipped], whole=True)
    target = target_named(source, qualname)
    if target is None:
        names = [each.qualname for each in known if each.qualname]
        raise Failure(f"{shown} has no function `{qualname}`{did_you_mean(qualname, names)}")
    return File(shown, path, source, project, [target], whole=False)


async def _run_all(files: Sequence[File], arguments: argparse.Namespace) -> None:
    runs, line = DryRuns(), ProgressLine()
    try:
        async with drawing(line, wanted=arguments.progress):
            for file in files:
                await _run_file(file, arguments, runs, line)
    finally:
        await runs.close()


async def _run_file(file: File, arguments: argparse.Namespace, runs: DryRuns, line: ProgressLine) -> None:
    interpreter = interpreter_of(file.project.root, arguments.python)
    home = Home(interpreter.path, file.project.root.absolute(), tuple(shlex.split(arguments.launcher or "")))
    for target in file.targets:
        line.begin(target_name(file.shown, target))
        options = _options(arguments)
        path = file.path.absolute()
        outcome = await runs.dry_run(file.source, path, target, home, options, file.settings, line.phase)
        if isinstance(outcome, list):
            _must_work(outcome, interpreter)
        file.outcomes += outcome if isinstance(outcome, list) else [outcome]


def _must_work(records: Sequence[Record], interpreter: Interpreter) -> None:
    """Raise Failure where the interpreter cannot run anything."""
    for record in records:
        for fault in record.result.faults:
            if fault.code == NO_TORCH:
                raise Failure(
                    f"{fault.message} (interpreter from {interpreter.origin}); "
                    "choose another with --python, or install torch 2.7 or newer there"
                )


def _options(arguments: argparse.Namespace) -> RunOptions:
    return RunOptions(
        device=arguments.device,
        timeout=arguments.timeout,
        search_seconds=arguments.search_time,
        seed=arguments.seed,
        inputs=arguments.inputs,
        gpu_memory=arguments.gpu_memory,
    )


def interpreter_of(root: Path, chosen: str | None) -> Interpreter:
    """Return the interpreter: of a name on PATH, of an environment's folder, or the project's. Failure without one."""
    found = find_interpreter(root, chosen)
    if not chosen:
        return found
    if found.path.is_dir():
        inside = python_in(found.path)
        if inside is None:
            raise Failure(f"--python: there is no interpreter in {chosen}")
        return Interpreter(inside, "--python")
    on_path = shutil.which(chosen)
    if on_path is None:
        raise Failure(f"--python: {chosen}: no such interpreter")
    return Interpreter(Path(on_path), "--python")
