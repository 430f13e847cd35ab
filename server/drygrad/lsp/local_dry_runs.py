"""Dry runs by worker processes of this machine: what the server's words for them stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from drygrad.dryrun.conversation import made_result
from drygrad.dryrun.findings import missing_finding
from drygrad.dryrun.inputs.arguments import Problem
from drygrad.dryrun.inputs.comment import comment_edit, read_flag, written_comment
from drygrad.dryrun.lane import in_turn
from drygrad.dryrun.launches.configured import for_file
from drygrad.dryrun.launches.launch import LaunchError
from drygrad.dryrun.merge import Record, applied, merge
from drygrad.dryrun.plan import Missing, Plan, RunOptions, started_by
from drygrad.dryrun.planning import plan_runs
from drygrad.dryrun.report import missing_json, panel_json
from drygrad.dryrun.result import Result
from drygrad.dryrun.service import DryRuns, Home
from drygrad.dryrun.states import State
from drygrad.dryrun.targets import Target as PlannedTarget
from drygrad.dryrun.targets import target_at, target_named, targets
from drygrad.lsp import local_forecasts
from drygrad.lsp.dry_run_service import RunSettings, Seen, Target, WorkerState
from drygrad.lsp.forecasted import Forecasted
from drygrad.model import Edit, Finding, Position
from drygrad.static.engine import Analyzer
from drygrad.static.source import Source


@dataclass(frozen=True)
class Unplanned:
    """A run that lacked inputs: it ends as soon as it begins, with a finding that says what is missing."""

    missing: Missing
    path: Path
    how: RunSettings
    result: Result
    findings: tuple[Finding, ...]
    run_id: str = ""
    files: frozenset[Path] = frozenset()
    elsewhere: tuple[Finding, ...] = ()


class LocalDryRuns:
    """The service of the command line, in the words of the server."""

    def __init__(self) -> None:
        self._runs = DryRuns(self._hear)
        self._listeners: list[Callable[[], None]] = []
        self._state = WorkerState("stopped")

    def targets(self, source: Source) -> Sequence[PlannedTarget]:
        """Return what can be run, but for what a comment excludes. SourceError where the text does not parse."""
        found = targets(source)
        if not found:
            source.parse()  # says what is wrong with the text, if anything is
        return [target for target in found if not target.skipped]

    def target_at(self, source: Source, position: Position) -> PlannedTarget | None:
        """Return what stands at a position."""
        return target_at(source, position)

    def applied(self, seen: Seen, source: Source) -> Seen | None:
        """Return a run as it speaks of another text; None where what was executed is not the same there."""
        if isinstance(seen, Record):
            return applied(seen, source)
        unplanned = cast("Unplanned", seen)
        target = target_named(source, unplanned.missing.target.qualname)
        if target is None:
            return None
        planned = _planned(source, unplanned.path, target, unplanned.how)
        return _unplanned(planned, source, unplanned.path, unplanned.how) if isinstance(planned, Missing) else None

    def merge(
        self, static: Sequence[Finding], seen: Sequence[Seen], source: Source, others: Sequence[Finding] = ()
    ) -> tuple[Finding, ...]:
        """Return the findings of both witnesses: one for each fault, and none that a run has refuted."""
        merged = merge(static, [one for one in seen if isinstance(one, Record)], source, others).findings
        missing = (finding for one in seen if not isinstance(one, Record) for finding in one.findings)
        return tuple(sorted([*merged, *missing], key=lambda finding: finding.span))

    def inputs_edit(self, seen: Seen, source: Source) -> Edit | None:
        """Return what writes the inputs of a run above its target; None where there are none, or a comment has them."""
        comment = seen.comment if isinstance(seen, Record) else None
        target = target_named(source, cast("Record", seen).plan.target.qualname) if comment else None
        return comment_edit(source, target.function, comment) if target and comment else None

    def written_inputs(self, source: Source, qualname: str | None, inputs: str, number: int) -> Edit | str:
        """Return what writes inputs above a target, in the place of its comment of that number; why not, if so."""
        read, target = read_flag(inputs), target_named(source, qualname)
        if isinstance(read, Problem) or target is None:
            return read.message if isinstance(read, Problem) else "this function no longer exists"
        return written_comment(source, target.function, inputs, number)

    def run_json(self, seen: Seen) -> dict[str, Any]:
        """Return a run as panels show it."""
        if isinstance(seen, Record):
            return panel_json(seen)
        unplanned = cast("Unplanned", seen)
        return missing_json(unplanned.missing, str(unplanned.path))

    def expect(self, how: RunSettings) -> None:
        """Start what runs need ahead of the first."""
        self._runs.expect(Home(how.interpreter, how.root, how.launcher))

    async def dry_run(
        self, source: Source, path: Path, target: Target, how: RunSettings, on_phase: Callable[[str], None]
    ) -> Sequence[Seen]:
        """Run a target; cancelling the caller ends the run. There is always something to tell."""
        home = Home(how.interpreter, how.root, how.launcher)
        planned = cast("PlannedTarget", target)
        options = await in_turn(_started, path, planned, how)
        if isinstance(options, Missing):
            return [_unplanned(options, source, path, how)]
        records = await self._runs.dry_run(source, path, planned, home, options, how.settings, on_phase)
        return [_unplanned(records, source, path, how)] if isinstance(records, Missing) else records

    async def forecast(
        self, source: Source, path: Path, target: Target, how: RunSettings, on_phase: Callable[[str], None]
    ) -> Forecasted:
        """Follow a target without memory and arithmetic; cancelling the caller ends it."""
        home, planned = Home(how.interpreter, how.root, how.launcher), cast("PlannedTarget", target)
        options = await in_turn(_started, path, planned, how)
        if not isinstance(options, Missing):
            options = local_forecasts.conditions(options, how)
            records = await self._runs.dry_run(source, path, planned, home, options, how.settings, on_phase)
            if not isinstance(records, Missing):
                return await local_forecasts.forecasted(records[0], how)
            options = records
        return local_forecasts.without(options, path, how)

    async def what_if(self, forecast: Forecasted, how: RunSettings, on_phase: Callable[[str], None]) -> Forecasted:
        """Return a forecast with what could take less memory; cancelling the caller ends that."""
        home = Home(how.interpreter, how.root, how.launcher)
        return await local_forecasts.with_what_if(forecast, how, self._runs.supervisor(home).run, on_phase)

    def forecast_applied(self, forecast: Forecasted, source: Source) -> Forecasted | None:
        """Return a forecast as it speaks of another text; None where what was followed is not the same there."""
        return local_forecasts.applied_to(forecast, source)

    async def experiment(
        self, seen: Seen, how: RunSettings, on_phase: Callable[[str], None], on_more: Callable[[Seen], None]
    ) -> Seen:
        """Return a run with what experiments have found that follow it; cancelling the caller ends them."""
        if not isinstance(seen, Record):
            return seen
        home = Home(how.interpreter, how.root, how.launcher)
        return await self._runs.experiment(seen, home, how.settings, how.experiment_time, on_phase, on_more)

    async def vary(self, seen: Seen, how: RunSettings) -> Sequence[Seen]:
        """Return runs with other options, which came by what a run has left out; cancelling the caller ends them."""
        if not isinstance(seen, Record):
            return ()
        home = Home(how.interpreter, how.root, how.launcher)
        return await self._runs.vary(seen, home, how.settings, how.experiment_time)

    async def verify(self, seen: Seen, source: Source, how: RunSettings) -> Seen:
        """Return a run of a text with its fixes tried; cancelling the caller ends that."""
        if not isinstance(seen, Record):
            return seen
        analysis = await in_turn(Analyzer(how.settings).check, source)
        home = Home(how.interpreter, how.root, how.launcher)
        return await self._runs.verify(seen, analysis.findings, home, how.settings, how.verify_time)

    @property
    def state(self) -> WorkerState:
        """What the worker that spoke last is doing now."""
        return self._state

    def on_state(self, listener: Callable[[], None]) -> None:
        """Have a change of ``state`` told."""
        self._listeners.append(listener)

    def _hear(self, state: State) -> None:
        self._state = WorkerState(state.name, state.why, state.torch, state.interpreter, state.devices)
        for listener in self._listeners:
            listener()

    async def restart(self) -> None:
        """End all workers and their runs; the next run starts a new one."""
        await self._runs.close()


def _options(how: RunSettings) -> RunOptions:
    buffers = {str(path): text for path, text in how.buffers.items()}
    return RunOptions(
        how.device,
        inputs=how.inputs,
        timeout=how.timeout,
        root=how.root,
        buffers=buffers,
        search_seconds=how.search_time,
        program_seconds=how.program_time,
        memory_limit=int(how.memory_limit * (1 << 30)) or None,
        gpu_memory=int(how.gpu_memory * (1 << 30)) or None,
    )


def _started(path: Path, target: PlannedTarget, how: RunSettings) -> RunOptions | Missing:
    """Return the conditions of a run, with the launch that was chosen or set; Missing where that means nothing."""
    project, options = how.project, _options(how)
    if project is None:
        return options
    try:
        launch = for_file(project, path, is_script=target.function is None, choice=how.launch)
    except LaunchError as error:
        return Missing(target, str(error), target.name_span)
    return started_by(launch, options)


def _planned(source: Source, path: Path, target: PlannedTarget, how: RunSettings) -> list[Plan] | Missing:
    options = _started(path, target, how)
    return options if isinstance(options, Missing) else plan_runs(source, path, target, options)


def _unplanned(missing: Missing, source: Source, path: Path, how: RunSettings) -> Unplanned:
    result = made_result("no-inputs", {"device": how.device}, missing.message)
    return Unplanned(missing, path, how, result, tuple(missing_finding(missing, source, how.settings)))
