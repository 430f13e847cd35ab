"""Running the files of a command: their targets side by side, the fixes of what was found tried."""

from __future__ import annotations

import argparse
import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path

from drygrad.dryrun.capacity import parallel_runs
from drygrad.dryrun.experiments import MOST_RANKS
from drygrad.dryrun.forecasting import asked_for
from drygrad.dryrun.lane import in_turn
from drygrad.dryrun.launches.configured import for_file, with_variables
from drygrad.dryrun.launches.launch import Launch, LaunchError
from drygrad.dryrun.merge import Record, applied
from drygrad.dryrun.plan import Missing, RunOptions, started_by
from drygrad.dryrun.report import target_name
from drygrad.dryrun.service import DryRuns, Home
from drygrad.dryrun.supervisor import NO_TORCH
from drygrad.dryrun.targets import Target
from drygrad.dryrun.what_if.exploring import Table
from drygrad.gpus import Gpu
from drygrad.interpreters import OF_THE_SETTINGS, Interpreter, find_interpreter, python_in
from drygrad.launchers import Profile, profile_of
from drygrad.project import Project

from .conditions import conditions
from .errors import Failure
from .run_files import File, Outcomes
from .run_progress import Progress


class Runner:
    """Carries out the runs of one command; the workers live as long as it does, unless they are given to it."""

    def __init__(self, arguments: argparse.Namespace, runs: DryRuns | None = None) -> None:
        self._arguments = arguments
        parallel = parallel_runs()
        self._runs = runs or DryRuns(parallel=parallel)
        self._slots = asyncio.Semaphore(2 * parallel)

    async def close(self) -> None:
        """End the workers."""
        await self._runs.close()

    async def run(self, files: Sequence[File], progress: Progress) -> None:
        """Check the files and run their targets; what a file already has an outcome of is not run again."""
        for home in dict.fromkeys(self._home(file)[1] for file in files if file.waiting):
            self._runs.expect(home)
        await asyncio.gather(*(in_turn(file.check) for file in files))
        buffers = {str(file.path.absolute()): file.source.text for file in files if file.fixed}
        waiting = [(file, target) for file in files for target in file.waiting]
        progress.expect(len(waiting))
        tasks = [asyncio.ensure_future(self._target(file, target, buffers, progress)) for file, target in waiting]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _target(self, file: File, target: Target, buffers: dict[str, str], progress: Progress) -> None:
        async with self._slots:
            name = target_name(file.shown, target)
            progress.begin(name)
            file.outcomes[target.qualname] = await self._outcomes(file, target, buffers, progress)
            progress.end(name)

    async def _outcomes(self, file: File, target: Target, buffers: dict[str, str], progress: Progress) -> Outcomes:
        home = self._home(file)[1]
        others = {at: text for at, text in buffers.items() if at != str(file.path.absolute())}
        options = started_by(_launch(file, target), _options(self._arguments, file, others))
        found = await self._found(file, target, options, progress)
        if isinstance(found, Missing):
            return [found]
        seconds = conditions(self._arguments, file.project.runs).experiment_time if len(found) == 1 else 0
        varied = await self._runs.vary(found[0], home, file.settings, seconds, progress.phase)
        return [await self._followed(record, file, home, progress) for record in (*found, *varied)]

    async def forecast(self, file: File, target: Target, gpu: Gpu | None, progress: Progress) -> Outcomes:
        """Follow a target without memory, on a GPU or on none in particular."""
        options = started_by(_launch(file, target), _options(self._arguments, file, {}))
        found = await self._found(file, target, asked_for(options, gpu), progress)
        return [found] if isinstance(found, Missing) else [*found]

    async def what_if(self, file: File, record: Record, progress: Progress) -> Table:
        """Follow a target once more with each of what could be different."""
        progress.phase("what if")
        return await self._runs.what_if(record, self._home(file)[1])

    async def _found(
        self, file: File, target: Target, options: RunOptions, progress: Progress
    ) -> Sequence[Record] | Missing:
        interpreter, home = self._home(file)
        path = file.path.absolute()
        found = await self._runs.dry_run(file.source, path, target, home, options, file.settings, progress.phase)
        if not isinstance(found, Missing):
            _must_work(found, interpreter, home)
        return found

    def _home(self, file: File) -> tuple[Interpreter, Home]:
        interpreter = interpreter_for(file.project, self._arguments.python, file.path.absolute())
        return interpreter, home_of(file.project, interpreter, self._arguments.launcher)

    async def _followed(self, record: Record, file: File, home: Home, progress: Progress) -> Record:
        """Return the record of a run with what experiments have found, and the fixes of all of it tried."""
        bounds = conditions(self._arguments, file.project.runs)

        def more(known: Record) -> None:
            name = target_name(file.shown, known.plan.target)
            progress.found(name, sum(finding.severity != "hint" for finding in (*known.findings, *known.elsewhere)))

        more(record)
        record = await self._runs.experiment(record, home, file.settings, bounds.experiment_time, progress.phase, more)
        progress.phase("verifying")
        return await self._runs.verify(record, file.static, home, file.settings, bounds.verify_time)


def home_of(project: Project, interpreter: Interpreter, launcher: tuple[str, ...]) -> Home:
    """Return where a project's runs happen. Failure for a launcher that is neither a profile nor a program."""
    profile = profile_of(launcher, project.runs.launchers)
    if profile is None and launcher and shutil.which(launcher[0]) is None:
        known = ", ".join(project.runs.launchers)
        there_is = f"there is {known}" if known else f"{project.config or 'pyproject.toml'} has none"
        raise Failure(
            f"--launcher: {launcher[0]} is no program, and no profile in [tool.drygrad.run.launchers]: {there_is}"
        )
    return Home(interpreter.path, project.root.absolute(), profile or launcher)


def taken_over(file: File, before: File) -> None:
    """Give a file the outcomes of an earlier version of it that are true of this one."""
    for target in file.targets:
        old = before.outcomes.get(target.qualname, [])
        records = [applied(outcome, file.source) for outcome in old if isinstance(outcome, Record)]
        if records and len(records) == len(old) and all(records):
            file.outcomes[target.qualname] = [record for record in records if record is not None]


def _must_work(records: Sequence[Record], interpreter: Interpreter, home: Home) -> None:
    """Raise Failure where the interpreter cannot run anything."""
    for record in records:
        for fault in record.result.faults:
            if fault.code == NO_TORCH:
                if isinstance(home.launcher, Profile):
                    raise Failure(fault.message)
                raise Failure(
                    f"{fault.message} (interpreter from {interpreter.origin}); "
                    "choose another with --python, or install torch 2.7 or newer there"
                )


def _launch(file: File, target: Target) -> Launch | None:
    """Return how a target's program is started, where that is given or set. Failure where what is set means nothing."""
    if file.launch is not None:
        return with_variables(file.launch, file.project)
    try:
        return for_file(file.project, file.path, is_script=target.function is None)
    except LaunchError as error:
        raise Failure(str(error)) from error


def _options(arguments: argparse.Namespace, file: File, buffers: dict[str, str]) -> RunOptions:
    bounds = conditions(arguments, file.project.runs)
    return RunOptions(
        device=bounds.device,
        devices=min(arguments.ranks or 1, MOST_RANKS),
        ranks=arguments.ranks,
        timeout=bounds.timeout,
        search_seconds=bounds.search_time,
        program_seconds=bounds.program_time,
        seed=arguments.seed,
        inputs=arguments.inputs,
        gpu_memory=bounds.gpu_memory,
        memory_limit=bounds.memory_limit,
        buffers=buffers,
    )


def interpreter_for(project: Project, python: str | None, file: Path | None = None) -> Interpreter:
    """Return the interpreter that runs a project's file: the one named, or set, or found. Failure without one."""
    if python:
        return _chosen(project.root, python, "--python")
    if project.interpreter:
        return _chosen(project.root, project.interpreter, OF_THE_SETTINGS)
    return find_interpreter(project.root, None, file)


def _chosen(root: Path, chosen: str, by: str) -> Interpreter:
    """Return the interpreter of a name on PATH, or of an environment's folder. Failure without one."""
    found = find_interpreter(root, chosen)
    if found.path.is_dir():
        inside = python_in(found.path)
        if inside is None:
            raise Failure(f"{by}: there is no interpreter in {chosen}")
        return Interpreter(inside.absolute(), by)
    on_path = shutil.which(chosen)
    if on_path is None:
        raise Failure(f"{by}: {chosen}: no such interpreter")
    return Interpreter(Path(on_path).absolute(), by)
