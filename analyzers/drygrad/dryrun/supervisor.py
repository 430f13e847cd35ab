"""Keeps a worker alive: starts it, starts it again, and has runs done, a few at a time."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Protocol

from drygrad.dryrun.backoff import Backoff
from drygrad.dryrun.conversation import Conversation, Died, Flight, OnInterim, OnPhase, Unusable, made_result
from drygrad.dryrun.launch import Launch
from drygrad.dryrun.process import WorkerProcess
from drygrad.dryrun.remote.arrival import arrive
from drygrad.dryrun.remote.destination import Far
from drygrad.dryrun.result import Fault, Result
from drygrad.dryrun.states import Limits, State, StateName

PARALLEL = 2
NO_TORCH = "DG905"
_HELD = 3.0
"""Seconds within which the runs that follow a failed start are told the same."""

_log = logging.getLogger(__name__)


class Runnable(Protocol):
    """A plan: all that the supervisor wants of it is the request that crosses the wire."""

    def as_json(self) -> dict[str, Any]:
        """Return the request."""
        ...


class Supervisor:
    """The runs of one interpreter. Nothing is started before the first run, ``start`` or ``restart``.

    ``on_state`` hears of every change of ``state``, in the event loop.
    """

    def __init__(
        self,
        launch: Launch,
        on_state: Callable[[State], None] | None = None,
        *,
        limits: Limits | None = None,
        backoff: Backoff | None = None,
        parallel: int = PARALLEL,
    ) -> None:
        self.state = State("stopped", launch.interpreter)
        self._launch = launch
        self._on_state = on_state
        far = launch.destination
        self._limits = limits or (Limits(grace=15.0, cancel=2.0, farewell=2.0) if far else Limits())
        self._backoff = backoff or (Backoff(far.profile.restarts, window=3600.0) if far else Backoff())
        self._slots = asyncio.Semaphore(parallel)
        self._living: asyncio.Task[None] | None = None
        self._spare: Conversation | None = None
        self._busy: dict[Flight, Conversation | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._waiting = 0
        self._idle: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._failed = -_HELD

    async def run(
        self,
        plan: Runnable,
        on_phase: OnPhase | None = None,
        run: str | None = None,
        on_interim: OnInterim | None = None,
    ) -> Result:
        """Have a plan carried out; cancelling the caller cancels the run. Whatever happens, there is a result."""
        flight = Flight(run or uuid.uuid4().hex, plan.as_json(), on_phase, on_interim)
        task = asyncio.create_task(self._fly(flight))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            return await asyncio.shield(flight.answer)
        except asyncio.CancelledError:
            self.cancel(flight.run)
            raise

    def cancel(self, run: str) -> bool:
        """Answer a run with ``cancelled``, and end what works on it; say whether there was such a run."""
        flights = [flight for flight in self._busy if flight.run == run]  # one may go on elsewhere as another ends
        for flight in flights:
            if conversation := self._busy[flight]:
                conversation.cancel(flight)
            else:
                flight.end("cancelled", "cancelled before it started")
            self._tell()
        return bool(flights)

    def start(self) -> None:
        """Start the worker, unless it was started."""
        if self._living is None or (self._living.done() and self.state.name == "stopped"):
            self._living = asyncio.create_task(self._live())

    async def settled(self, on_phase: OnPhase | None = None) -> State:
        """Start the worker if need be; return the state when it is ready or has failed for good."""
        with self._needed():
            self.start()
            while self.state.name not in ("ready", "busy", "failed"):
                if on_phase:
                    on_phase(self.state.phase)
                await self._next_change()
        return self.state

    def prepare(self, device: str, modules: tuple[str, ...]) -> None:
        """Let the worker import third-party modules ahead of a run."""
        if self._spare:
            self._spare.say({"type": "prepare", "device": device, "modules": list(modules)})

    async def restart(self) -> None:
        """End the worker and its runs, forget how often it died, and start it again."""
        await self.close()
        self._backoff.forget()
        self.start()

    async def close(self) -> None:
        """End the worker and its runs."""
        if self._idle is not None:
            self._idle.cancel()
        living, self._living = self._living, None
        if living:
            living.cancel()
            with suppress(asyncio.CancelledError):
                await living
        spare = [self._spare] if self._spare else []
        talks = {conversation for conversation in self._busy.values() if conversation} | {*spare}
        self._spare = None
        for flight in self._busy:
            flight.end("cancelled", "the worker was stopped")
        self._change("stopped")
        others = self._tasks - {asyncio.current_task()}
        await asyncio.gather(*(conversation.leave() for conversation in talks), *others)
        await asyncio.gather(*self._ending, return_exceptions=True)

    @property
    def log(self) -> str:
        """The last that the worker wrote to its standard error."""
        return self._spare.log if self._spare else ""

    async def _fly(self, flight: Flight) -> None:
        self._busy[flight] = None
        try:
            flight.phase("waiting")
            self._forget_failure()
            async with self._slots:
                while conversation := await self._worker_for(flight):
                    await self._serve(flight, conversation)
        finally:
            del self._busy[flight]
            self._rest()
            if self.state.name == "busy" and not any(self._busy.values()):
                self._change("ready" if self._spare else "starting")

    async def _serve(self, flight: Flight, conversation: Conversation) -> None:
        """Have a worker do a run; the run has no answer then if the worker was ended because of another."""
        self._busy[flight] = conversation
        self._change("busy")
        await conversation.serve(flight)
        self._busy[flight] = None
        if flight.answer.done() and flight.answer.result().outcome != "crashed":
            self._backoff.forget()
        if self._launch.once:
            await conversation.leave()

    def _forget_failure(self) -> None:
        """Try a way to another machine again that has failed a while ago: networks come back."""
        lately = asyncio.get_running_loop().time() - self._failed < _HELD
        if self._launch.destination and self.state.name == "failed" and not lately:
            self._backoff.forget()
            self._change("stopped")

    @contextmanager
    def _needed(self) -> Generator[None]:
        """Count on the start of a worker; one elsewhere is given up when nobody does: it may be queued."""
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            if not self._waiting and self._launch.destination and self.state.name in ("starting", "backing-off"):
                self._abandon()

    def _abandon(self) -> None:
        living, self._living = self._living, None
        if living:
            living.cancel()
            self._ending.add(living)
            living.add_done_callback(self._ending.discard)
        self._change("stopped")

    async def _worker_for(self, flight: Flight) -> Conversation | None:
        """Wait for a worker. None where the run has its answer: it was served or cancelled, or all is lost."""
        with self._needed():
            while not flight.answer.done():
                self.start()
                if self.state.name == "failed":
                    flight.settle(self._refusal(flight))
                elif self._spare and not self._spare.is_over:
                    return self._take()
                else:
                    if self.state.name in ("starting", "backing-off"):
                        flight.phase(self.state.phase)
                    await self._next_change()
        return None

    def _take(self) -> Conversation | None:
        taken = self._spare
        if self._launch.once:
            self._spare = None
            self._tell()
        return taken

    def _refusal(self, flight: Flight) -> Result:
        why = self.state.why or "the worker cannot start"
        result = made_result("error", flight.request, why)
        if not self.state.unusable:
            return result
        return replace(result, faults=(Fault(NO_TORCH, why, at=None),), interpreter=self._launch.interpreter)

    async def _live(self) -> None:
        """Keep one worker ready, until it cannot be."""
        try:
            while True:
                why = await self._one_life()
                if why is None:
                    continue
                level = logging.INFO if self._launch.destination else logging.WARNING
                _log.log(level, "%s: %s", self._launch.interpreter, why)
                pause = self._backoff.pause()
                if pause is None:
                    self._fail(why)
                    return
                self._change("backing-off", why)
                await asyncio.sleep(pause)
        except Unusable as error:
            self._fail(str(error), unusable=True)

    def _fail(self, why: str, *, unusable: bool = False) -> None:
        """Give up. Whoever sent the worker elsewhere hears it as a fault of the way, not of this machine's torch."""
        self._failed = asyncio.get_running_loop().time()
        if self._launch.destination:
            self._change("failed", why, unusable=True)
        elif unusable:
            self._change("failed", f"no usable torch in {self._launch.interpreter}: {why}", unusable=True)
        else:
            self._change("failed", f"{why}; it died {self._backoff.limit + 1} times in a row")

    async def _one_life(self) -> str | None:
        """Start a worker and stay until it dies (return why) or, if it serves a single run, until it is taken."""
        self._change("starting")
        try:
            process = await WorkerProcess.start(self._launch)
        except OSError as error:
            raise Unusable(f"{self._launch.command[0]} cannot be started: {error.strerror}") from None
        try:
            far = await self._far(process)
        except Died as error:
            return str(error)
        conversation = Conversation(process, self._limits, far)
        try:
            ready = await conversation.ready()
            self._spare = conversation
            self._change("ready", ready=ready)
            return await self._death_or_departure(conversation)
        except Died as error:
            return str(error)
        finally:
            if self._spare is conversation:
                self._spare = None
            if all(conversation is not talk for talk in self._busy.values()):
                await conversation.leave()

    async def _far(self, process: WorkerProcess) -> Far | None:
        """Have the worker sent, where it is to serve elsewhere. Died or Unusable where it does not come there."""
        destination = self._launch.destination
        if destination is None:
            return None
        try:
            return await arrive(process, destination, self._limits.start, lambda why: self._change("starting", why))
        except BaseException:
            await process.leave(0)
            await process.ended()
            raise

    def _rest(self) -> None:
        """Let a worker on another machine go, which may hold a GPU there, when nobody has asked for it long enough."""
        if self._idle is not None:
            self._idle.cancel()
        far = self._launch.destination
        if far and not self._busy and self._spare:
            self._idle = asyncio.get_running_loop().call_later(far.profile.idle, self._part_with, self._spare)

    def _part_with(self, conversation: Conversation) -> None:
        if self._spare is conversation and not self._busy:
            closing = asyncio.create_task(self.close())
            self._tasks.add(closing)
            closing.add_done_callback(self._tasks.discard)

    async def _death_or_departure(self, conversation: Conversation) -> str | None:
        over = asyncio.ensure_future(conversation.over())
        while self._spare is conversation and not over.done():
            change = asyncio.ensure_future(self._next_change())
            await asyncio.wait({over, change}, return_when=asyncio.FIRST_COMPLETED)
            change.cancel()
        if self._spare is not conversation:
            over.cancel()
            return None
        return over.result()

    async def _next_change(self) -> None:
        await self._changed.wait()

    def _tell(self) -> None:
        """Wake all that wait for a change."""
        self._changed.set()
        self._changed = asyncio.Event()

    def _change(
        self, name: StateName, why: str | None = None, *, unusable: bool = False, ready: Mapping[str, Any] | None = None
    ) -> None:
        said = ready if ready is not None else self.state.ready
        if name == "ready" and any(self._busy.values()):
            name = "busy"
        state = State(name, self._launch.interpreter, why, unusable, said)
        if state == self.state:
            return
        self.state = state
        self._tell()
        if self._on_state:
            self._on_state(state)
