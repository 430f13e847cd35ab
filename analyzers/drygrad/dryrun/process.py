"""One worker process: its pipes, its messages, its end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import suppress
from typing import Any

from drygrad.children import KILL, send_signal
from drygrad.dryrun import wire
from drygrad.dryrun.launch import Launch
from drygrad.dryrun.schema import Malformed

MAX_MESSAGE = 64 << 20
LOG_BYTES = 64 << 10
BREATH = 32
"""After so many messages in a row the event loop may do something else."""

_GUESSES = {11: ", a fault in native code", 9: ", possibly out of memory"}


class WireError(Exception):
    """What the worker writes cannot be read, or is too much."""


async def within(seconds: float, awaitable: Awaitable[object]) -> bool:
    """Wait so long for something, which is cancelled then; say whether it is done. A cancel of the caller stays one."""
    future = asyncio.ensure_future(awaitable)
    try:  # not `wait_for`, which may lose a cancel until Python 3.12
        done, _ = await asyncio.wait({future}, timeout=seconds)
    finally:
        future.cancel()
    return bool(done)


class _Streams(asyncio.subprocess.SubprocessStreamProtocol):
    """The three streams; ``exited`` is set when the process ends, though a grandchild may still hold them open."""

    def __init__(self) -> None:
        super().__init__(limit=MAX_MESSAGE, loop=asyncio.get_running_loop())
        self.exited = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.exited.set()


class WorkerProcess:
    """A worker in a session of its own. Its standard error is kept, cut to the last ``LOG_BYTES``."""

    def __init__(self, transport: asyncio.SubprocessTransport, streams: _Streams, last_words: float) -> None:
        self._process = asyncio.subprocess.Process(transport, streams, asyncio.get_running_loop())
        self._exited = streams.exited
        self._log = bytearray()
        self._last_words = last_words
        self._logging = asyncio.create_task(self._keep_log())

    @classmethod
    async def start(cls, launch: Launch) -> WorkerProcess:
        """Start a worker. OSError where the command cannot be executed."""
        transport, streams = await asyncio.get_running_loop().subprocess_exec(
            _Streams, *launch.command, env=dict(launch.environment), cwd=launch.folder, start_new_session=True
        )
        return cls(transport, streams, launch.last_words)

    @property
    def pid(self) -> int:
        """The process at the top; it leads its session."""
        return self._process.pid

    @property
    def log(self) -> str:
        """The last that it wrote to its standard error."""
        return self._log.decode(errors="replace")

    @property
    def status(self) -> int | None:
        """The exit status; None before its end."""
        return self._process.returncode

    def send(self, message: Mapping[str, Any]) -> None:
        """Write one message; one that comes too late is dropped."""
        self.write(json.dumps(message).encode() + b"\n")

    def write(self, data: bytes) -> None:
        """Write something that is no message; what comes too late is dropped."""
        with suppress(OSError, RuntimeError):
            self._input().write(data)

    @property
    def at_end(self) -> bool:
        """Whether its output has ended."""
        return self._process.stdout is None or self._process.stdout.at_eof()

    async def line(self) -> bytes:
        """Return the next line of its output, empty at the end. WireError where it is too long."""
        output = self._process.stdout
        assert output is not None
        return await self._line(output)

    async def messages(self, garbage: int) -> AsyncIterator[dict[str, Any]]:
        """Yield what it says until its output ends. WireError where more than ``garbage`` lines are no messages."""
        count = 0
        while line := await self.line():
            count += 1
            if count % BREATH == 0:
                await asyncio.sleep(0)
            try:
                message = wire.message(line)
            except Malformed as error:
                garbage -= 1
                if garbage < 0:
                    raise WireError(f"it sends something that is not a message ({error}): {line[:80]!r}") from None
            else:
                yield message

    @staticmethod
    async def _line(output: asyncio.StreamReader) -> bytes:
        try:
            return await output.readline()
        except ValueError:
            raise WireError(f"it wrote a message of more than {MAX_MESSAGE >> 20} MiB") from None

    def kill(self) -> None:
        """End it: its top, which clears up behind it, has a few moments before the whole group is killed."""
        send_signal(self._process, signal.SIGTERM)
        asyncio.get_running_loop().call_later(self._last_words, self._kill_group)

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self.pid, signal.SIGKILL)
            else:  # the launcher ends, and the worker below it at the end of its input
                self._input().close()
                send_signal(self._process, KILL)

    async def leave(self, seconds: float) -> None:
        """Close its input, which asks it to end; kill it where it has not ended within some seconds."""
        with suppress(OSError, RuntimeError):
            self._input().close()
        if not await within(seconds, self._exited.wait()):
            self.kill()

    async def ended(self) -> str:
        """Wait for its end; say in words how it came."""
        await self._exited.wait()
        self._kill_group()
        await within(0.2, self._logging)  # longer only where a stranger holds the pipe open
        return _how(self._process.returncode or 0, self.log)

    async def _keep_log(self) -> None:
        errors = self._process.stderr
        assert errors is not None
        while chunk := await errors.read(1 << 16):
            self._log += chunk
            del self._log[:-LOG_BYTES]

    def _input(self) -> asyncio.StreamWriter:
        assert self._process.stdin is not None
        return self._process.stdin


def _how(status: int, log: str) -> str:
    last = next((line.strip() for line in reversed(log.splitlines()) if line.strip()), "")
    said = f" ({last[:300]})" if last else ""
    number = -status if status < 0 else status - 128
    with suppress(ValueError):
        return f"the worker was ended by {signal.Signals(number).name}{_GUESSES.get(number, '')}{said}"
    return f"the worker ended with exit status {status}{said}"
