"""A worker's way to another machine: the wait until an interpreter begins there, and what is sent to it then."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from drygrad.dryrun import wire
from drygrad.dryrun.conversation import Died, Unusable
from drygrad.dryrun.process import WireError, WorkerProcess, within
from drygrad.dryrun.remote.destination import Destination, Far
from drygrad.dryrun.remote.packing import arrival, packed
from drygrad.dryrun.schema import Malformed
from drygrad.launchers import Profile

OnWait = Callable[[str], None]
_LOOK = 0.3
"""Seconds between two looks at what the launcher says while it waits."""
_MOST_NOISE = 10_000
"""Lines that others may print before and between ours."""
_NOT_FOUND = (126, 127)


async def arrive(process: WorkerProcess, destination: Destination, sending: float, on_wait: OnWait) -> Far:
    """Have the worker started on the other side, which has so many seconds for it; Died or Unusable where it is not.

    ``on_wait`` hears what is waited for until then.
    """
    profile = destination.profile
    begun = asyncio.ensure_future(_begun(process, destination.mark))
    try:
        await _waiting(process, profile, begun, on_wait)
        terminal = begun.result()
        if terminal is None:
            raise await _failure(process, profile)
        if terminal:
            raise Unusable(f"`{profile.shown}` gives a terminal instead of a pipe: leave out the option for it (`-t`)")
        on_wait(f"sending the worker through {profile.program}")
        return await _in_time(_unpacked(process, destination), sending, profile, "the worker did not start there")
    except WireError as error:
        raise Died(f"`{profile.shown}`: {error}") from None
    finally:
        begun.cancel()


async def _waiting(
    process: WorkerProcess, profile: Profile, begun: asyncio.Future[bool | None], on_wait: OnWait
) -> None:
    """Wait until an interpreter has begun, or never will; Died when the start limit is over."""
    loop = asyncio.get_running_loop()
    until = loop.time() + profile.limit
    while not begun.done():
        left = until - loop.time()
        if left <= 0:
            raise Died(f"`{profile.shown}` started nothing within {profile.limit:g} s{_said(process)}")
        on_wait(f"waiting for {profile.program}{_said(process).replace(f': {profile.program}: ', ': ', 1)}")
        await asyncio.wait({begun}, timeout=min(_LOOK, left))


async def _begun(process: WorkerProcess, mark: str) -> bool | None:
    """Read on until the interpreter has said that it reads; return whether from a terminal, None if it never does."""
    for _ in range(_MOST_NOISE):
        line = (await process.line()).rstrip(b"\r\n")
        if line[:-1].endswith(mark.encode()):
            return line.endswith(b"1")
        if not line and process.at_end:
            break
    return None


async def _unpacked(process: WorkerProcess, destination: Destination) -> Far:
    process.write(arrival() + json.dumps(destination.order).encode() + b"\n")
    for _ in range(_MOST_NOISE):
        message = await _message(process)
        kind = message.get("type") if message else None
        if message is None:
            raise await _failure(process, destination.profile, begun=True)
        if kind == "wanted":
            process.write(packed().data)
        elif kind == "unusable":
            raise Unusable(f"{message['why']} (through `{destination.profile.shown}`)")
        elif kind == "placed":
            return Far(destination, message["root"])
    raise Died(f"`{destination.profile.shown}` prints without end")


async def _message(process: WorkerProcess) -> dict[str, Any] | None:
    """Return the next message, an empty one for a line that is none; None at the end."""
    line = await process.line()
    if not line:
        return None
    try:
        return wire.message(line)
    except Malformed:
        return {}


async def _in_time(work: Awaitable[Far], seconds: float, profile: Profile, otherwise: str) -> Far:
    task = asyncio.ensure_future(work)
    if not await within(seconds, asyncio.shield(task)):
        task.cancel()
        raise Died(f"{otherwise} within {seconds:g} s (through `{profile.shown}`)")
    return task.result()


async def _failure(process: WorkerProcess, profile: Profile, *, begun: bool = False) -> Died | Unusable:
    """Return what to raise for a launcher whose output has ended too early."""
    if not await within(5, process.ended()):
        process.kill()
        await process.ended()
    status, said = process.status, _said(process)
    if begun:
        return Died(f"the interpreter that `{profile.shown}` started ended{said}")
    if status in _NOT_FOUND:
        python = profile.python or profile.engine.python or "the interpreter"
        return Unusable(f"`{profile.shown}` finds no {python} there{said}")
    return Died(f"`{profile.shown}` led nowhere{said or f': it ended with exit status {status}'}")


def _said(process: WorkerProcess) -> str:
    last = next((line.strip() for line in reversed(process.log.splitlines()) if line.strip()), "")
    return f": {last[:200].rstrip('.')}" if last else ""
