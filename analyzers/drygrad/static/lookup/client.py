"""Answers for the server and the command line: cached, bounded in time, never on the event loop's own time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from drygrad.static.lookup.answers import UNKNOWN, Answer
from drygrad.static.lookup.dependents import Dependent
from drygrad.static.lookup.helper import Helper, HelperError, helper_command
from drygrad.static.lookup.light import look_up_light
from drygrad.static.lookup.modules import modules_of
from drygrad.static.lookup.users import User

log = logging.getLogger(__name__)

T = TypeVar("T")

HELPER_SHARE = 0.8
"""The helper gets less time than the server waits, so that it normally answers what it has instead of being killed."""
MAX_FAILURES = 5
MAX_ATTEMPTS = 2


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop waiting, and when a helper has grown old."""

    timeout: float = 3.0
    far: float = 8.0
    """The same, for a question that takes reading many files."""
    each: float = 1.5
    """Seconds for a name that takes jedi."""
    answers: int = 5_000
    resident_bytes: int = 200 * 1024 * 1024
    first_pause: float = 0.5


@dataclass(frozen=True, slots=True)
class Place:
    """Where names are asked from: a file, its workspace folder, and what its interpreter has installed."""

    path: Path
    root: Path
    interpreter_paths: tuple[str, ...] = ()


@dataclass(slots=True)
class _Failures:
    """How often the helper failed in a row, and until when it is left alone."""

    first_pause: float
    count: int = 0
    until: float = 0.0

    @property
    def resting(self) -> bool:
        return self.count >= MAX_FAILURES or time.monotonic() < self.until

    def add(self, reason: str) -> None:
        self.count += 1
        self.until = time.monotonic() + self.first_pause * 2 ** (self.count - 1)
        if self.count == MAX_FAILURES:
            log.warning("The look-up of imported names failed %d times and is off now: %s", self.count, reason)
        else:
            log.info("The helper for imported names is started again: %s", reason)

    def clear(self) -> None:
        self.count, self.until = 0, 0.0


@dataclass(slots=True)
class _Memory:
    """Answers by (file of origin, name), and how often a name was asked in vain for lack of time."""

    answers: dict[tuple[Path, str], Answer] = field(default_factory=dict[tuple[Path, str], Answer])
    attempts: dict[tuple[Path, str], int] = field(default_factory=dict[tuple[Path, str], int])
    generation: int = 0

    def clear(self) -> None:
        self.generation += 1
        self.answers.clear()
        self.attempts.clear()

    def keep(self, path: Path, answers: Mapping[str, Answer], late: Iterable[str]) -> None:
        """Keep the answers; those that came too late only after some attempts."""
        waiting: set[str] = set()
        for name in late:
            self.attempts[path, name] = self.attempts.get((path, name), 0) + 1
            if self.attempts[path, name] < MAX_ATTEMPTS:
                waiting.add(name)
        self.answers |= {(path, name): answer for name, answer in answers.items() if name not in waiting}


class LookupClient:
    """Asks a helper process, which starts at the first question and is replaced when it grows, hangs or dies."""

    def __init__(self, limits: Limits | None = None, command: Sequence[str] | None = None) -> None:
        self._limits = limits or Limits()
        self._command = list(command) if command else helper_command()
        self._turn = asyncio.Lock()
        self._helper: Helper | None = None
        self._failures = _Failures(self._limits.first_pause)
        self._memory = _Memory()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The running helper's process number, if there is one."""
        return self._helper.pid if self._helper else None

    def known(self, path: Path, names: Iterable[str]) -> dict[str, Answer]:
        """Return the answers that are there already; it costs nothing, so the typing path may call it."""
        answers = self._memory.answers
        return {name: answers[path, name] for name in names if (path, name) in answers}

    async def ask(self, place: Place, names: Iterable[str]) -> dict[str, Answer]:
        """Return the answers, as many as there are within the time bound; a cancelled wait loses no answer."""
        names = list(dict.fromkeys(names))
        if not self._closed and len(self.known(place.path, names)) < len(names):
            task = asyncio.create_task(self._fetch(place, names))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            await asyncio.shield(task)
        return self.known(place.path, names)

    async def users(self, place: Place, name: str) -> list[User]:
        """Return the files of the workspace that use what a file defines; those that were found in time."""
        return await self._files(place, _users_in, self._limits.timeout, users_of=name)

    async def dependents(self, place: Place, name: str) -> list[Dependent]:
        """Return the programs that come to what a file defines, of a qualified name, the likeliest first.

        Those are all that were found in time.
        """
        return await self._files(place, _dependents_in, self._limits.far, dependents_of=name)

    async def _files(
        self, place: Place, read: Callable[[dict[str, Any]], list[T]], timeout: float, **asked: object
    ) -> list[T]:
        async with self._turn:
            if self._closed or self._failures.resting:
                return []
            try:
                reply = await asyncio.wait_for(self._exchange(place, timeout, **asked), timeout)
                found = read(reply)
            except (HelperError, asyncio.TimeoutError) as error:
                await self._fail(error)
                return []
            except asyncio.CancelledError:
                await self._drop(kill=True)  # its answer would be read as that to the next question
                raise
            self._failures.clear()
            await self._retire()
            return found

    def forget(self, path: Path) -> None:
        """Take note that a file changed: any answer may rest on it, and asking again is cheap."""
        if path.suffix in (".py", ".pyi", ".pth") or not path.suffix:
            self._memory.clear()

    async def close(self) -> None:
        """Kill the helper and let nobody wait any longer."""
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._drop(kill=True)

    async def _fetch(self, place: Place, names: list[str]) -> None:
        async with self._turn:
            missing = [name for name in names if (place.path, name) not in self._memory.answers]
            if not missing or self._failures.resting:
                return
            generation = self._memory.generation
            try:
                reply = await asyncio.wait_for(
                    self._exchange(place, self._limits.timeout, names=missing), self._limits.timeout
                )
                answers = _answers_in(reply)
            except (HelperError, asyncio.TimeoutError) as error:
                await self._fail(error)
                self._memory.keep(place.path, dict.fromkeys(missing, UNKNOWN), missing)
                return
            self._failures.clear()
            # What was read before a file changed is not kept beyond this answer.
            if generation == self._memory.generation:
                self._memory.keep(place.path, answers, map(str, reply["late"]))
            await self._retire()

    async def _fail(self, error: Exception) -> None:
        await self._drop(kill=True)
        self._failures.add(str(error) or f"no answer within {self._limits.timeout} s")

    async def _exchange(self, place: Place, timeout: float, **asked: object) -> dict[str, Any]:
        if self._helper is None:
            self._helper = await Helper.start(self._command)
        return await self._helper.exchange(
            {
                "path": str(place.path),
                "root": str(place.root),
                "interpreter_paths": place.interpreter_paths,
                **asked,
                "seconds": timeout * HELPER_SHARE,
                "each": self._limits.each,
            }
        )

    async def _retire(self) -> None:
        """End a helper that has answered enough or grown too large; the next question starts another."""
        helper, limits = self._helper, self._limits
        if helper and (helper.exchanges >= limits.answers or helper.resident_bytes() > limits.resident_bytes):
            await self._drop()

    async def _drop(self, *, kill: bool = False) -> None:
        helper, self._helper = self._helper, None
        if helper is not None:
            await helper.end(kill=kill)


def _answers_in(reply: dict[str, Any]) -> dict[str, Answer]:
    try:
        for error in reply["errors"]:
            log.info("jedi failed on a name: %s", error)
        return {str(name): Answer.from_json(answer) for name, answer in reply["answers"].items()}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise HelperError(f"it answered something else: {error}") from error


def _users_in(reply: dict[str, Any]) -> list[User]:
    try:
        return [User.from_json(user) for user in reply["users"]]
    except (KeyError, TypeError) as error:
        raise HelperError(f"it answered something else: {error}") from error


def _dependents_in(reply: dict[str, Any]) -> list[Dependent]:
    try:
        return [Dependent.from_json(one) for one in reply["dependents"]]
    except (KeyError, TypeError, ValueError) as error:
        raise HelperError(f"it answered something else: {error}") from error


def look_up(place: Place, names: Iterable[str], timeout: float = 1.0) -> dict[str, Answer]:
    """Answer in this process, by the light look-up alone; what the time does not suffice for is left out."""
    results = look_up_light(modules_of(place.root, place.interpreter_paths), place.path, list(names), timeout)
    return {name: result.answer for name, result in results.items()}
