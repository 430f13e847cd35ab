"""Workers forked from a process that has imported torch: importing it costs most tests more than their runs.

``WarmWorkers`` starts that process (``warm_origin.py``). ``python warm_workers.py SOCKET`` in front of a worker's
command lets it start the worker, and ends as that does.
"""

from __future__ import annotations

import array
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

STREAMS = 3


class WarmWorkers:
    """The process that forks workers of this Python, from the first that is asked for until ``close``."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="warm-")
        self._address = str(Path(self._folder.name, "socket"))
        self._process: subprocess.Popen[bytes] | None = None

    def prefix(self) -> tuple[str, ...]:
        """Return what stands in front of the command of a worker that is forked."""
        if self._process is None:
            inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
            command = [sys.executable, str(Path(__file__).with_name("warm_origin.py")), self._address]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=inherited)
            assert self._process.stdout is not None
            assert self._process.stdout.readline() == b"ready\n"
        return sys.executable, "-I", "-S", __file__, self._address

    def close(self) -> None:
        """End the process, and the workers."""
        if self._process is not None:
            self._process.communicate()
        self._folder.cleanup()


@cache
def shared() -> WarmWorkers:
    """Return those of this process."""
    return WarmWorkers()


def call(address: str, command: list[str]) -> int:
    """Let a launcher's command run in a fork of the process at an address, with our streams; end as it ends."""
    arguments = command[command.index("-S") + 2 :]
    order = {"arguments": arguments, "environment": dict(os.environ), "folder": str(Path.cwd())}
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        line.connect(address)
        streams = array.array("i", range(STREAMS))
        line.sendmsg([json.dumps(order).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
        pid = int(line.recv(100))

        def hand_on(number: int, _frame: object) -> None:
            os.kill(pid, number)

        signal.signal(signal.SIGTERM, hand_on)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in range(STREAMS - 1):  # the other side sees the worker close them
            os.dup2(null, stream)
        status = line.recv(100)
    return os.waitstatus_to_exitcode(int(status)) if status else 1


if __name__ == "__main__":
    sys.exit(call(sys.argv[1], sys.argv[2:]))
