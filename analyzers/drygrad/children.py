"""Processes that drygrad has started, and their ends."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio.subprocess import Process

KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


def send_signal(process: Process, number: int) -> None:
    """Send a signal, if the process has not ended.

    The methods of the process itself would first collect its status where it has, which asyncio waits for: it then
    complains of an unknown child on the standard error.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)


def hear_of_ends() -> None:
    """Have the system tell how children end, also where whoever started drygrad did not want to hear of its own."""
    if hasattr(signal, "SIGCHLD"):
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
