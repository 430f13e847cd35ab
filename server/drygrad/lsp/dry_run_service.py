"""What the editor asks of dry runs: the words between the server and what plans, runs and judges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from drygrad.dryrun.result import Result
from drygrad.launchers import Profile
from drygrad.lsp.forecasted import Forecasted
from drygrad.model import Edit, Finding, Position, Span
from drygrad.project import Project
from drygrad.settings import Settings
from drygrad.static.source import Source


@dataclass(frozen=True)
class RunSettings:
    """How a run is to happen; ``buffers`` are the unsaved texts of other files."""

    root: Path
    interpreter: Path
    launcher: tuple[str, ...] | Profile = ()
    device: str = "auto"
    timeout: float = 30.0
    memory_limit: float = 0.0
    """GiB; 0: as the worker sees fit."""
    verify_time: float = 10.0
    search_time: float = 2.0
    program_time: float = 10.0
    experiment_time: float = 5.0
    gpu_memory: float = 0.0
    """GiB; 0: as much as there is."""
    gpu: str | None = None
    """The GPU that forecasts are made for."""
    launch: str | None = None
    """How the program is started, as a command or by a name; None: as the project sets it."""
    inputs: str | None = None
    """The arguments of the call, for this run only; None: as the text gives them."""
    project: Project | None = None
    settings: Settings = field(default_factory=Settings)
    buffers: Mapping[Path, str] = field(default_factory=dict[Path, str])


class Target(Protocol):
    """What can be run. A script has no name."""

    @property
    def qualname(self) -> str | None:
        """Its name in the module, with dots."""
        ...

    @property
    def span(self) -> Span:
        """Its text."""
        ...

    @property
    def name_span(self) -> Span:
        """Where it is named; for a script, where its work begins."""
        ...


class Seen(Protocol):
    """What one run has found, placed in a version of the text."""

    @property
    def run_id(self) -> str:
        """Its name."""
        ...

    @property
    def result(self) -> Result:
        """What the worker said."""
        ...

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What it means for the text."""
        ...

    @property
    def elsewhere(self) -> tuple[Finding, ...]:
        """What it means for other files of the project; each has its ``path``."""
        ...

    @property
    def files(self) -> frozenset[Path]:
        """The other files that its inputs come from."""
        ...


@dataclass(frozen=True)
class WorkerState:
    """What the worker is doing: ``name`` is starting, ready, busy, backing-off, failed or stopped."""

    name: str
    why: str | None = None
    torch: str | None = None
    interpreter: str | None = None
    devices: tuple[str, ...] = ()


class DryRunService(Protocol):
    """Plans, runs and judges. What is not async is called in the thread that analyses."""

    def targets(self, source: Source) -> Sequence[Target]:
        """Return what can be run. SourceError where the text cannot be read."""
        ...

    def target_at(self, source: Source, position: Position) -> Target | None:
        """Return what stands at a position."""
        ...

    def applied(self, seen: Seen, source: Source) -> Seen | None:
        """Return a run as it speaks of another text; None where what was executed is not the same there."""
        ...

    def merge(
        self, static: Sequence[Finding], seen: Sequence[Seen], source: Source, others: Sequence[Finding] = ()
    ) -> tuple[Finding, ...]:
        """Return the findings of both witnesses: one for each fault, and none that a run has refuted.

        ``others`` is what runs of other files have found in this one.
        """
        ...

    def expect(self, how: RunSettings) -> None:
        """Start what runs need ahead of the first."""
        ...

    async def dry_run(
        self, source: Source, path: Path, target: Target, how: RunSettings, on_phase: Callable[[str], None]
    ) -> Sequence[Seen]:
        """Run a target; cancelling the caller ends the run. There is always something to tell."""
        ...

    async def experiment(
        self, seen: Seen, how: RunSettings, on_phase: Callable[[str], None], on_more: Callable[[Seen], None]
    ) -> Seen:
        """Return a run with what experiments have found that follow it; cancelling the caller ends them.

        ``on_more`` hears the run with what is known by then, whenever one has ended.
        """
        ...

    async def vary(self, seen: Seen, how: RunSettings) -> Sequence[Seen]:
        """Return runs with other options, which came by what a run has left out; cancelling the caller ends them."""
        ...

    async def verify(self, seen: Seen, source: Source, how: RunSettings) -> Seen:
        """Return a run of a text with its fixes tried; cancelling the caller ends that."""
        ...

    async def forecast(
        self, source: Source, path: Path, target: Target, how: RunSettings, on_phase: Callable[[str], None]
    ) -> Forecasted:
        """Follow a target without memory and arithmetic; cancelling the caller ends it."""
        ...

    async def what_if(self, forecast: Forecasted, how: RunSettings, on_phase: Callable[[str], None]) -> Forecasted:
        """Return a forecast with what could take less memory; cancelling the caller ends that."""
        ...

    def forecast_applied(self, forecast: Forecasted, source: Source) -> Forecasted | None:
        """Return a forecast as it speaks of another text; None where what was followed is not the same there."""
        ...

    def inputs_edit(self, seen: Seen, source: Source) -> Edit | None:
        """Return what writes the inputs of a run above its target; None where there are none, or a comment has them."""
        ...

    def written_inputs(self, source: Source, qualname: str | None, inputs: str, number: int) -> Edit | str:
        """Return what writes inputs above a target, in the place of its comment of that number; why not, if so."""
        ...

    def run_json(self, seen: Seen) -> dict[str, Any]:
        """Return a run as panels show it."""
        ...

    @property
    def state(self) -> WorkerState:
        """What the worker is doing now."""
        ...

    def on_state(self, listener: Callable[[], None]) -> None:
        """Have a change of ``state`` told."""
        ...

    async def restart(self) -> None:
        """End all workers and their runs; the next run starts a new one."""
        ...
