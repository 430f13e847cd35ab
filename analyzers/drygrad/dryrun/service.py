"""Dry runs for the command line and the editor: plans, has them carried out, and judges what they saw."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from drygrad.dryrun import inventions
from drygrad.dryrun.behind import behind_devices
from drygrad.dryrun.callers import Callers, program_of
from drygrad.dryrun.choice import UNSEEN, choose
from drygrad.dryrun.conversation import OnInterim, OnPhase
from drygrad.dryrun.costs import Costs, weighed
from drygrad.dryrun.coverage import coverage
from drygrad.dryrun.experiments import experiment
from drygrad.dryrun.findings import findings, findings_elsewhere
from drygrad.dryrun.forecasting import forecast_after
from drygrad.dryrun.lane import in_turn
from drygrad.dryrun.launch import Launch, LaunchOptions, launch, launch_through
from drygrad.dryrun.launches.choosing import lacks_a_launch, told, worth_trying
from drygrad.dryrun.launches.finding import find
from drygrad.dryrun.launches.launch import Launch as Launched
from drygrad.dryrun.merge import Record
from drygrad.dryrun.plan import Missing, Plan, RunOptions, started_by
from drygrad.dryrun.planning import gives_nothing, invents, plan_runs, without
from drygrad.dryrun.result import Result
from drygrad.dryrun.states import State
from drygrad.dryrun.supervisor import PARALLEL, Supervisor
from drygrad.dryrun.targets import Target
from drygrad.dryrun.varying import vary
from drygrad.dryrun.verify import verify
from drygrad.dryrun.ways import Ways
from drygrad.dryrun.what_if.exploring import Table, explore
from drygrad.dryrun.what_if.fitting import with_fitting
from drygrad.dryrun.workspace_imports import imported_files
from drygrad.launchers import Profile
from drygrad.model import Finding
from drygrad.settings import Settings
from drygrad.static.source import Source

KEPT = 2
"""So many interpreters keep a worker; the one that was used longest ago is let go for another."""


_PROGRAMS = 2
"""All programs that are run in vain may take so many times as long as one may."""
_OTHERWISE = {"cuda": "sim", "sim": "cpu"}
_WORDS = {"cpu": "the CPU"}
_NAMES = {"cuda": "the GPU", "sim": "the simulated GPU"}


@dataclass(frozen=True)
class Home:
    """Where runs happen: an interpreter, what leads to another machine or is put in front, and the project's folder."""

    interpreter: Path
    root: Path
    launcher: tuple[str, ...] | Profile = ()


class _Request(NamedTuple):
    """What is asked to be run, where."""

    source: Source
    path: Path
    target: Target
    home: Home
    settings: Settings
    on_phase: OnPhase | None


def launch_at(home: Home) -> Launch:
    """Return how a worker is started there, in the sandbox."""
    if isinstance(home.launcher, Profile):
        return launch_through(home.launcher, home.interpreter, home.root)
    options = LaunchOptions(prefix=home.launcher, workspaces=(str(home.root),))
    return launch(home.interpreter, options, home.root)


class DryRuns:
    """The workers of all interpreters in use, each with so many runs at once.

    ``on_state`` hears of every change of any of them.
    """

    def __init__(
        self,
        on_state: Callable[[State], None] | None = None,
        launch_at: Callable[[Home], Launch] = launch_at,
        parallel: int = PARALLEL,
    ) -> None:
        self._parallel = parallel
        self._on_state = on_state
        self._launch_at = launch_at
        self._supervisors: dict[Home, Supervisor] = {}
        self._callers = Callers()
        self._ways = Ways()

    def supervisor(self, home: Home) -> Supervisor:
        """Return the supervisor of an interpreter, the most recently used now."""
        supervisor = self._supervisors.pop(home, None) or self._started(home)
        self._supervisors[home] = supervisor
        return supervisor

    def expect(self, home: Home) -> None:
        """Start a worker there while a run is being prepared: what it imports takes longer than that."""
        self.supervisor(home).start()

    def _started(self, home: Home) -> Supervisor:
        return Supervisor(self._launch_at(home), self._on_state, parallel=self._parallel)

    async def dry_run(
        self,
        source: Source,
        path: Path,
        target: Target,
        home: Home,
        options: RunOptions,
        settings: Settings,
        on_phase: OnPhase | None = None,
    ) -> list[Record] | Missing:
        """Run a target once for each of its inputs; Missing where it has none. Cancelling the caller ends the run."""
        options = replace(options, root=options.root or home.root)
        request = _Request(source, path, target, home, settings, on_phase)
        found = await self._first_made(request, options)
        found = await self._launched(request, options, found)
        if isinstance(found, Missing) or not inventions.is_unmade(found[0].plan, found[0].result):
            return found
        otherwise = await self._first_made(request, replace(options, own_calls=False))
        if isinstance(otherwise, Missing) or otherwise[0].result.outcome not in ("passed", "failed"):
            return found
        return [_with_notes(record, ("its call in this file could not be built",)) for record in otherwise]

    async def _launched(
        self, request: _Request, options: RunOptions, found: list[Record] | Missing
    ) -> list[Record] | Missing:
        """Run a target again as the project starts its program, where it lacks what that gives; say what started it."""
        is_script, given = request.target.function is None, options.launch
        if isinstance(found, Missing):
            return found
        whole = given is not None and (bool(given.arguments) or given.origin is None)
        if whole or not lacks_a_launch(found[0].result, is_script=is_script):
            return [_told(record) for record in found]
        launches = await in_turn(_launches_of, request.path.absolute(), request.home.root)
        for one in worth_trying(launches, found[0].result, options.root or request.home.root):
            started = replace(one, environment={**(given.environment if given else {}), **one.environment})
            records = await self._first_made(request, started_by(started, options))
            if isinstance(records, Missing) or lacks_a_launch(records[0].result, is_script=is_script):
                continue
            return [_told(record) for record in records]
        return [_told(record) for record in found]

    async def _first_made(self, request: _Request, options: RunOptions) -> list[Record] | Missing:
        """Run a target with the best inputs there are; a call in another file that cannot be made gives way.

        So does a program that does not come to the target.
        """
        source, path, target, home, settings, on_phase = request
        evidence = [(gives_nothing, self._with_callers), (invents, self._with_programs)]
        notes, spent = tuple[str, ...](), 0.0
        while True:
            plans = await in_turn(plan_runs, source, path, target, options)
            while wanted := next((one for one in evidence if one[0](plans)), None):
                evidence.remove(wanted)
                options = await wanted[1](request, options)
                plans = await in_turn(plan_runs, source, path, target, options)
            if isinstance(plans, Missing):
                return plans
            rest, known = without(plans[0], options), self._ways.in_vain(plans[0])
            if rest is not None and known is not None:
                notes, options = (*notes, known), rest
                continue
            await self._let_go(home)
            records = [await self._carry_out(plan, home, settings, on_phase) for plan in plans]
            if rest is None or not inventions.is_without_inputs(plans[0], records[0].result):
                return [_with_notes(record, notes) for record in records]
            ended = records[0].result
            await in_turn(self._ways.learn, plans[0], ended)
            notes += (ended.reason,) if ended.reason else ended.notes
            spent += ended.own_seconds if plans[0].program else 0.0
            options = rest if spent < _PROGRAMS * options.program_seconds else replace(rest, programs=())

    async def _with_callers(self, request: _Request, options: RunOptions) -> RunOptions:
        path, home = request.path.absolute(), request.home
        found = await self._callers.of(path, request.target, home.root, home.interpreter, options)
        return replace(options, callers=found)

    async def _with_programs(self, request: _Request, options: RunOptions) -> RunOptions:
        path, home = request.path.absolute(), request.home
        if options.program_seconds <= 0:
            return options
        found = await self._callers.programs_of(path, request.target, home.root, home.interpreter, options)
        given = await in_turn(program_of, options, home.root)
        return replace(options, programs=(*given, *(one for one in found if one not in given)))

    async def experiment(
        self,
        record: Record,
        home: Home,
        settings: Settings,
        seconds: float,
        on_phase: OnPhase | None = None,
        on_more: Callable[[Record], None] | None = None,
    ) -> Record:
        """Return a record with what experiments have found, within so many seconds; ``on_more`` hears it as they end.

        Cancelling the caller ends them.
        """

        async def run(plan: Plan, on_interim: OnInterim) -> Result:
            return await self.supervisor(home).run(plan, on_phase, on_interim=on_interim if on_more else None)

        async def again(plan: Plan) -> Result:
            return await self.supervisor(home).run(plan, on_phase)

        if seconds > 0:
            record = await behind_devices(record, again, settings)
            record = await forecast_after(record, again)
        return await experiment(record, run, settings, seconds, on_more)

    async def vary(
        self, record: Record, home: Home, settings: Settings, seconds: float, on_phase: OnPhase | None = None
    ) -> list[Record]:
        """Return the runs with other options that came by what a run has left out, begun within so many seconds."""
        plan = record.plan

        async def again(options: RunOptions) -> Sequence[Record]:
            planned = await in_turn(plan_runs, plan.source, plan.path, plan.target, options)
            if isinstance(planned, Missing):
                return []
            return [await once(one) for one in planned]

        async def once(plan: Plan) -> Record:
            return await self._carry_out(plan, home, settings, on_phase)

        return await vary(record, again, once, seconds)

    async def verify(
        self, record: Record, static: Sequence[Finding], home: Home, settings: Settings, budget: float
    ) -> Record:
        """Return a record with its fixes tried, within so many seconds. Cancelling the caller ends the runs."""
        run = self.supervisor(home).run
        return await with_fitting(await verify(record, static, run, settings, budget), run, budget)

    async def what_if(self, record: Record, home: Home) -> Table:
        """Return what a forecast comes to with something different, the greatest saving first."""
        return await explore(record, self.supervisor(home).run)

    async def state(self, home: Home) -> State:
        """Return the state of an interpreter's worker, started if need be, when it is ready or has failed."""
        return await self.supervisor(home).settled()

    async def restart(self) -> None:
        """End all workers and their runs; those that are needed start again."""
        await asyncio.gather(*(supervisor.restart() for supervisor in self._supervisors.values()))

    async def close(self) -> None:
        """End all workers and their runs."""
        supervisors, self._supervisors = [*self._supervisors.values()], {}
        await asyncio.gather(*(supervisor.close() for supervisor in supervisors), self._callers.close())

    def cancel(self, run: str) -> bool:
        """Cancel a run; say whether there was one of that id."""
        return any(supervisor.cancel(run) for supervisor in self._supervisors.values())

    async def _let_go(self, home: Home) -> None:
        """Close what has not been used for longest, where there are too many."""
        self.supervisor(home)
        idle = [other for other, supervisor in self._supervisors.items() if supervisor.state.name != "busy"]
        for other in idle[: max(0, len(self._supervisors) - KEPT)]:
            if other != home:
                await self._supervisors.pop(other).close()

    async def _carry_out(self, plan: Plan, home: Home, settings: Settings, on_phase: OnPhase | None) -> Record:
        run = uuid.uuid4().hex[:12]
        plan, result = await self._result(plan, home, run, on_phase)
        if plan.program is not None and result.data.get("called") is True:
            plan = await in_turn(_with_files, plan, home.root)
        result = inventions.settled(plan, result)
        result = replace(result, coverage=coverage(plan, result))
        found = await in_turn(findings, result, plan, plan.source, settings, run)
        elsewhere = await in_turn(findings_elsewhere, result, plan, settings, run)
        costs = Costs.of(result, plan.path, settings)
        found = await in_turn(weighed, found, [costs], plan.source)
        return Record(run, plan, result, tuple(found), elsewhere=tuple(elsewhere), costs=costs)

    async def _result(self, plan: Plan, home: Home, run: str, on_phase: OnPhase | None) -> tuple[Plan, Result]:
        """Run a plan, on a device of our choice where it has none; return the plan that was run."""
        supervisor = self.supervisor(home)
        if plan.options.device != "auto":
            return plan, await supervisor.run(plan, on_phase, run)
        device, why = choose(await supervisor.settled(on_phase))
        result = await supervisor.run(_on(plan, device), on_phase, run)
        while result.outcome == "unsupported" and device in _OTHERWISE and not result.data.get("ranks"):
            why = f"{_NAMES[device]} cannot run this{': ' if result.reason else ''}{result.reason or ''}"
            device = _OTHERWISE[device]
            why += f"; {UNSEEN}" if device == "cpu" else ""
            result = await supervisor.run(_on(plan, device), on_phase, run)
        where = f"ran on {_WORDS.get(device, device)}: {why}"
        if device != "cpu" and result.tensors_on == "cpu" and result.outcome == "passed":
            where = "ran on the CPU: the code puts no tensor on a GPU"
        return _on(plan, device), replace(result, notes=(where, *result.notes))


def _launches_of(path: Path, root: Path) -> list[Launched]:
    return find(root).of(path)


def _told(record: Record) -> Record:
    """Return a record of a launch that was found with where that was."""
    launch, root = record.plan.options.launch, record.plan.options.root
    if launch is None or launch.origin is None or (record.plan.target.function and not launch.arguments):
        return record
    note = told(launch, root or launch.folder)
    return replace(record, result=replace(record.result, notes=(note, *record.result.notes)))


def _with_files(plan: Plan, root: Path) -> Plan:
    """Return a plan whose program knows the files that it executes: a change of one of them outdates the run."""
    if plan.program is None:
        return plan
    own, buffers = plan.program, {Path(path): text for path, text in plan.options.buffers.items()}
    files = imported_files(own.source, own.path, root, buffers) | {own.path}
    return replace(plan, program=replace(own, files=files - {plan.path}))


def _with_notes(record: Record, notes: tuple[str, ...]) -> Record:
    return replace(record, result=replace(record.result, notes=tuple(dict.fromkeys((*record.result.notes, *notes)))))


def _on(plan: Plan, device: str) -> Plan:
    return replace(plan, options=replace(plan.options, device=device))
