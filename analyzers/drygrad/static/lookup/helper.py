"""The server's end of one helper process: start, one exchange after another, end."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from drygrad.children import KILL, send_signal

MAX_LINE = 4 * 1024 * 1024
FAREWELL_SECONDS = 1.0


class HelperError(Exception):
    """The helper could not be started, died, or wrote something that is no answer."""


def helper_command() -> list[str]:
    """Return the command line of the helper: this interpreter, isolated from the environment and the project.

    Its search path is the standard library's and the folders that drygrad and jedi lie in, nothing of the server's.
    It writes no bytecode: the guard refuses the folder for it, and with that the import.
    """
    roots = [str(Path(__file__).resolve().parents[3])]
    spec = importlib.util.find_spec("jedi")
    if spec is not None and spec.origin is not None:
        roots.append(str(Path(spec.origin).parents[1]))
    program = f"import sys; sys.path += {roots!r}; from drygrad.static.lookup.process import main; main()"
    return [sys.executable, "-I", "-S", "-B", "-c", program]


class Helper:
    """A running helper process. It ends when its input does, so that it never outlives the server."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._last_id = 0
        self.exchanges = 0

    @classmethod
    async def start(cls, command: Sequence[str]) -> Helper:
        """Start a process."""
        pipe, nowhere = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        try:
            # Not in the project's folder, whatever the server was started in.
            process = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=nowhere, limit=MAX_LINE, cwd=Path(sys.executable).parent
            )
        except OSError as error:
            raise HelperError(f"it could not be started: {error}") from error
        return cls(process)

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    async def exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return the reply to it."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        self._last_id += 1
        try:
            stdin.write(json.dumps({"id": self._last_id, **request}).encode() + b"\n")
            await stdin.drain()
            line = await stdout.readline()
            reply = json.loads(line) if line else None
        except (OSError, ValueError) as error:
            raise HelperError(f"its wire broke: {error}") from error
        if reply is None:
            raise HelperError("it ended")
        if not isinstance(reply, dict) or reply.get("id") != self._last_id:  # pyright: ignore[reportUnknownMemberType]
            raise HelperError("it answered something else")
        self.exchanges += 1
        return reply  # pyright: ignore[reportUnknownVariableType]

    def resident_bytes(self) -> int:
        """Return the process's memory; 0 where the system does not tell."""
        try:
            pages = Path(f"/proc/{self.pid}/statm").read_text("ascii").split()[1]
        except (OSError, IndexError):
            return 0
        return int(pages) * _page_size()

    async def end(self, *, kill: bool = False) -> None:
        """End the process: by the end of its input, or at once."""
        with suppress(ProcessLookupError, OSError):
            if kill:
                send_signal(self._process, KILL)
            elif self._process.stdin is not None:
                self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), FAREWELL_SECONDS)
        except asyncio.TimeoutError:
            send_signal(self._process, KILL)
            await self._process.wait()


def _page_size() -> int:
    import resource  # noqa: PLC0415 - only where /proc is, which is not Windows

    return resource.getpagesize()
