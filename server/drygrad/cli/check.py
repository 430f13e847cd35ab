"""``drygrad check``: from paths to a report, and from the report to the output and the exit status."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from drygrad.baseline import Baseline, BaselineError
from drygrad.interpreters import find_interpreter, site_packages
from drygrad.result_cache import ResultCache, cache_folder
from drygrad.walk import Projects, Walk

from .errors import Failure, complain
from .inspection import Job, Mode
from .overrides import Overrides
from .parallel import inspect_all
from .report import FileResult, Report
from .terminal import from_here, one_line

GARBAGE_THRESHOLD = 1_000_000
"""A syntax tree is a million objects and no garbage; by default the collector would visit them ten times over."""


@dataclass
class Plan:
    """The files to check, and what could not be planned."""

    jobs: list[Job] = field(default_factory=list[Job])
    problems: list[str] = field(default_factory=list[str])


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return the exit status."""
    gc.set_threshold(GARBAGE_THRESHOLD)
    if arguments.diff and arguments.output_format != "text":
        raise Failure("--diff is a format of its own; leave out --output-format")
    projects = Projects()
    kept = cache_folder() if arguments.cache else None
    plan = planned(arguments, projects, kept)
    results = tuple(inspect_all(plan.jobs, arguments.jobs, show_progress=arguments.progress))
    if kept:
        ResultCache(kept).sweep()
    broken = [str(problem) for project in projects.all for problem in project.problems]
    failures = [f"{one_line(result.path)}: {problem}" for result in results for problem in result.problems]
    problems = broken + plan.problems + failures
    for problem in problems:
        complain(problem)
    if arguments.write_baseline:
        _write_baseline(arguments, plan.jobs, results, projects)
        return 2 if problems else 0
    report = Report(results, written=not arguments.diff)
    _show(report, arguments)
    return 2 if problems else int(report.reaches(arguments.fail_on))


def planned(arguments: argparse.Namespace, projects: Projects, kept: Path | None) -> Plan:
    """Return what a command is to check; ``kept`` is where findings are kept from check to check. Failure."""
    plan = Plan()
    make = _job_maker(arguments, projects, Overrides.of(arguments, writing=arguments.write_baseline))
    seen: set[str] = set()
    for given in arguments.paths:
        for shown in _files(given, arguments, projects, plan):
            real = "-" if shown == "-" else os.path.realpath(shown)
            if real not in seen:
                seen.add(real)
                plan.jobs.append(replace(make(shown), cache=kept))
    return plan


def _files(given: str, arguments: argparse.Namespace, projects: Projects, plan: Plan) -> Iterator[str]:
    walk = Walk(projects, gitignore=arguments.gitignore, force=arguments.force_exclude)
    if given == "-":
        yield given
    elif Path(given).is_dir():
        yield from _files_below(given, walk, plan, quiet=arguments.quiet)
    elif os.path.lexists(given):
        if walk.takes(given):
            yield given
        elif not arguments.quiet:
            complain(f"{given}: {_left_out(walk)}")
    else:
        plan.problems.append(f"{given}: no such file or folder")


def _files_below(folder: str, walk: Walk, plan: Plan, *, quiet: bool) -> Iterator[str]:
    is_empty = True
    try:
        for path in walk.files(folder):
            is_empty = False
            yield path
    except OSError as error:
        plan.problems.append(f"{error.filename or folder}: cannot read: {error.strerror}")
        return
    if is_empty and not quiet:
        left_out = f"; {_left_out(walk)}" if walk.left_out else ""
        complain(f"{folder}: no Python file or notebook to check{left_out}")


def _left_out(walk: Walk) -> str:
    """Say what left out something on a walk, as those see it who gave the paths."""
    told: list[str] = []
    for source in sorted(map(Path, walk.left_out)):
        shown = from_here(source)
        told.append(f"{shown} (--no-gitignore)" if source.name == ".gitignore" else f"`exclude` in {shown}")
    return f"left out by {' and '.join(told)}"


def _job_maker(arguments: argparse.Namespace, projects: Projects, overrides: Overrides) -> Callable[[str], Job]:
    mode = _mode(arguments)

    @cache
    def installed_for(root: Path) -> tuple[str, ...]:
        return site_packages(find_interpreter(root))

    def make(shown: str) -> Job:
        is_input = shown == "-"
        path = Path(arguments.stdin_filename) if is_input else Path(shown)
        project = projects.of_folder(path.parent)
        installed = installed_for(project.root)
        settings = overrides.settings(project.settings_for(path))
        baseline = overrides.baseline_of(project)
        if is_input:
            text_mode = replace(mode, fix="text" if mode.fix == "write" else mode.fix)
            return Job(
                path,
                arguments.stdin_filename,
                settings,
                text_mode,
                baseline,
                sys.stdin.buffer.read(),
                project.root,
                installed,
            )
        return Job(path, shown, settings, mode, baseline, None, project.root, installed)

    return make


def _mode(arguments: argparse.Namespace) -> Mode:
    if arguments.diff:
        return Mode("diff", arguments.unsafe_fixes)
    return Mode("write" if arguments.fix or arguments.unsafe_fixes else "no", arguments.unsafe_fixes)


def _write_baseline(
    arguments: argparse.Namespace, jobs: Sequence[Job], results: Sequence[FileResult], projects: Projects
) -> None:
    path: Path | None = arguments.baseline
    if path is None:
        named = [project for project in projects.all if project.settings.baseline]
        if len(named) != 1:
            raise Failure("--write-baseline needs --baseline FILE, or the setting `baseline`")
        path = named[0].root / str(named[0].settings.baseline)
    baseline = Baseline(path.absolute().parent)
    for job, result in zip(jobs, results, strict=True):
        baseline.add(job.path, result.keys)
    try:
        baseline.save(path)
    except BaselineError as error:
        raise Failure(str(error)) from error
    count = sum(len(result.keys) for result in results)
    sys.stderr.write(f"{path}: {count} known finding{'s' * (count != 1)} written\n")


def _show(report: Report, arguments: argparse.Namespace) -> None:
    from .formats import diffs, render  # noqa: PLC0415 - a format is imported when it is needed

    texts = [result.text for result in report.results if result.text is not None]
    for text in texts:
        sys.stdout.buffer.write(text)
    stream = sys.stderr if texts else sys.stdout
    if arguments.diff:
        sys.stdout.write(diffs(report, sys.stdout))
        stream = sys.stderr
    if arguments.diff or not (arguments.quiet and not report.items):
        stream.write(render(report, "summary" if arguments.diff else arguments.output_format, stream))
    stream.flush()
