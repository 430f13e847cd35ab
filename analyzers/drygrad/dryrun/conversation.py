"""What is said with one worker process: that it is ready, the runs it is asked for, and how each ends."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping, Set
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from drygrad.dryrun import failures, wire
from drygrad.dryrun.lane import in_turn
from drygrad.dryrun.process import WireError, WorkerProcess, within
from drygrad.dryrun.remote.destination import Far
from drygrad.dryrun.result import Outcome, Result
from drygrad.dryrun.schema import Malformed
from drygrad.dryrun.states import Limits

OnPhase = Callable[[str], None]
OnInterim = Callable[[Result], None]
MAX_PHASES = 10_000
MAX_INTERIMS = 100

_log = logging.getLogger(__name__)


class Died(Exception):
    """The worker is no more; the message says why."""


class Unusable(Exception):
    """The interpreter cannot serve, and another start would not help; the message says why."""


class Flight:
    """One run, from its request to its answer. ``gone`` is set when no process works on it any more."""

    def __init__(
        self,
        run: str,
        request: Mapping[str, Any],
        on_phase: OnPhase | None = None,
        on_interim: OnInterim | None = None,
    ) -> None:
        self.run = run
        self.request = request
        self.reading = asyncio.Lock()
        """What the run says of itself is read in its order."""
        self.answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self.gone = asyncio.Event()
        self.heard = asyncio.get_running_loop().time()
        self._on_phase = on_phase
        self._on_interim = on_interim
        self._phases = self._interims = 0

    @property
    def timeout(self) -> float:
        """The seconds that the run may take."""
        timeout = self.request.get("timeout")
        return float(timeout) if isinstance(timeout, (int, float)) else 30.0

    def phase(self, name: str) -> None:
        """Pass on what the run is doing now."""
        self.heard = asyncio.get_running_loop().time()
        self._phases += 1
        if self._on_phase and not self.answer.done() and self._phases <= MAX_PHASES:
            self._on_phase(name)

    @property
    def hears_more(self) -> bool:
        """Whether what the run knows by now is of interest, and not more of it than can be."""
        return self._on_interim is not None and not self.answer.done() and self._interims < MAX_INTERIMS

    def interim(self, result: Result) -> None:
        """Pass on what the run knows by now."""
        self._interims += 1
        if self._on_interim and not self.answer.done():
            self._on_interim(result)

    def settle(self, result: Result) -> None:
        """Answer, if nothing was answered before."""
        if not self.answer.done():
            self.answer.set_result(result)

    def end(self, outcome: Outcome, why: str) -> None:
        """Answer in the worker's place."""
        self.settle(made_result(outcome, self.request, why))


def made_result(outcome: Outcome, request: Mapping[str, Any], why: str) -> Result:
    """Return the result of a run that the worker could not give one for."""
    device, seed = request.get("device", "cpu"), request.get("seed", 0)
    return Result.read({"outcome": outcome, "device": device, "seed": seed, "notes": [why], "reason": why})


class Conversation:
    """Owns a process: reads it until it ends, matches results to runs, and ends it where it keeps no bound."""

    def __init__(self, process: WorkerProcess, limits: Limits, far: Far | None = None) -> None:
        self._process = process
        self._far = far
        self._limits = limits
        self._flights: dict[str, Flight] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._ready: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._reason: str | None = None
        self._culprit: Flight | None = None
        self._reading = asyncio.create_task(self._read())
        self._over = asyncio.create_task(self._end())

    @property
    def pid(self) -> int:
        """The process at the top."""
        return self._process.pid

    @property
    def log(self) -> str:
        """The last that the worker wrote to its standard error."""
        return self._process.log

    async def ready(self) -> dict[str, Any]:
        """Return what the worker says of itself when it is ready. Unusable or Died where it never is."""
        done, _ = await asyncio.wait({self._ready}, timeout=self._limits.start)
        if not done:
            self.kill(f"the worker was not ready within {self._limits.start:g} s")
            raise Died(await self.over())
        return self._ready.result()

    async def over(self) -> str:
        """Wait for the end of the process; return why it came."""
        return await asyncio.shield(self._over)

    def say(self, message: Mapping[str, Any]) -> None:
        """Send a message that has no answer."""
        self._process.send(message)

    @property
    def is_over(self) -> bool:
        """Whether the process has ended."""
        return self._over.done()

    def kill(self, why: str, culprit: Flight | None = None) -> None:
        """End the process at once, for a reason. The other runs have no part in it: they get no answer from here."""
        if self._reason is None:
            self._reason, self._culprit = why, culprit
        self._process.kill()

    async def leave(self) -> None:
        """Let the worker go."""
        self._reason = self._reason or "the worker was stopped"
        await self._process.leave(self._limits.farewell)
        await self.over()

    async def serve(self, flight: Flight) -> None:
        """Have a run done; return when the worker has nothing more to do with it.

        The run has no answer then if the worker was ended for the sake of another.
        """
        if self.is_over:
            return
        flight.gone.clear()
        self._flights[flight.run] = flight
        flight.heard = asyncio.get_running_loop().time()
        await self._ask(flight)
        if self.is_over:
            self._lose(flight, self._over.result())
        while not flight.gone.is_set():
            left = flight.heard + flight.timeout + self._limits.grace - asyncio.get_running_loop().time()
            if left <= 0:
                flight.end("deadline", f"no answer within {flight.timeout:g} s, nor from the worker itself")
                self.kill("a run did not end at its deadline", flight)
            await within(max(left, 0.05), flight.gone.wait())

    async def _ask(self, flight: Flight) -> None:
        if self._far is None:
            self.say({"type": "run", "run": flight.run, "plan": flight.request})
            return
        if changes := await self._far.changes():
            self.say(changes)
        if not flight.answer.done():
            self.say({"type": "run", "run": flight.run, "plan": self._far.request(flight.request)})

    def cancel(self, flight: Flight) -> None:
        """Answer a run at once, and see to it that it ends."""
        flight.end("cancelled", "cancelled")
        if flight.run in self._flights:
            self.say({"type": "cancel", "run": flight.run})
            asyncio.get_running_loop().call_later(self._limits.cancel, self._insist, flight)

    def _insist(self, flight: Flight) -> None:
        if not flight.gone.is_set():
            self.kill("a run did not end when it was cancelled", flight)

    async def _read(self) -> None:
        try:
            async for message in self._process.messages(self._limits.garbage):
                self._hear(message)
        except WireError as error:
            self.kill(f"the worker was ended: {error}")

    async def _end(self) -> str:
        how = await self._process.ended()
        await within(1, self._reading)  # what it said last may still be in the pipe
        why = self._reason or how
        if not self._ready.done():
            self._ready.set_exception(Died(why))
            self._ready.exception()  # nobody may be waiting
        for flight in [*self._flights.values()]:
            self._lose(flight, why)
        return why

    def _lose(self, flight: Flight, why: str) -> None:
        self._flights.pop(flight.run, None)
        if self._culprit in (None, flight):
            flight.end("crashed", why)
        flight.gone.set()

    def _hear(self, message: Mapping[str, Any]) -> None:
        kind = message["type"]
        if kind == "ready" and not self._ready.done():
            self._ready.set_result(dict(message))
        elif kind == "unusable" and not self._ready.done():
            self._ready.set_exception(Unusable(message["why"]))
        elif kind == "log":
            _log.debug("worker %d: %s", self.pid, message["text"][:2000])
        elif (flight := self._flights.get(message.get("run", ""))) is None:
            return
        elif kind == "phase":
            flight.phase(message["phase"])
        elif kind == "interim" and flight.hears_more:
            self._read_in_turn(self._interim(flight, message))
        elif kind == "result":
            del self._flights[flight.run]
            self._read_in_turn(self._answer(flight, message))

    def _read_in_turn(self, reading: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(reading)
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _interim(self, flight: Flight, message: Mapping[str, Any]) -> None:
        """Read what a run knows by now; what is no answer is not told, and the run goes on."""
        async with flight.reading:
            with suppress(Malformed):
                flight.interim(await in_turn(_result_in, message, flight.request, self._far))

    async def _answer(self, flight: Flight, message: Mapping[str, Any]) -> None:
        """Read what a run says of itself: an answer that is none ends this run alone."""
        try:
            async with flight.reading:
                # In turn, for a result has expressions, which are parsed.
                result = await in_turn(_result_in, message, flight.request, self._far)
        except Malformed as error:
            flight.end("error", f"the run's answer is malformed: {error}")
        else:
            failures.record(result.data)
            flight.settle(result)
        flight.gone.set()


def _result_in(message: Mapping[str, Any], request: Mapping[str, Any], far: Far | None) -> Result:
    """Return what a message says of a run. Raises Malformed where it is no answer."""
    answer = {**wire.decoded(message["answer"]), **_output(message)}
    result = Result.read(answer if far is None else far.answer(answer))
    if far is not None and far.note:
        result = replace(result, notes=(*result.notes, far.note))
    _require_own(result.files(), request)
    return result


def _require_own(files: Set[str], request: Mapping[str, Any]) -> None:
    """Raise Malformed for a place in a file that is not of the run's project: what stands there may be shown."""
    root = request.get("root")
    if not isinstance(root, str):
        return
    other: Mapping[str, Any] = request.get("elsewhere") or {}
    inside = [Path(os.path.normpath(folder)) for folder in (Path(root).absolute(), Path(root).resolve())]
    for file in files - {request.get("path"), other.get("path")}:
        if not any(Path(os.path.normpath(file)).is_relative_to(folder) for folder in inside):
            raise Malformed(f"{file!r} is not a file of the project")


def _output(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the run has printed: the worker has read it, whatever the run itself says of it."""
    return {"output": message["output"]} if "output" in message else {}
