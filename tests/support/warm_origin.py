"""``python warm_origin.py SOCKET``: the process that has imported torch, and forks a worker at each call.

The launcher's own code confines the fork, which goes on as the worker where the launcher would execute Python. It
serves until its standard input ends.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

runpy.run_path(str(Path(__file__).parents[2] / "analyzers/drygrad/worker/__main__.py"))

from drygrad.worker import devices, program, zygote  # noqa: E402 - only now, as the worker's Python finds it
from drygrad.worker.sandbox import launcher, layers, namespaces  # noqa: E402

STREAMS = array.array("i", range(3))
LIMIT = 1 << 20
AHEAD = (zygote, layers, namespaces)
"""What else workers import."""


def of_python(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what a Python reads of its environment as it starts."""
    return {name: environment[name] for name in ("PYTHONPATH", "PYTHONHOME", "PYTHONHASHSEED") if name in environment}


OURS = of_python(os.environ)


class Origin:
    """Forks a launcher at each call, and kills those whose caller has gone."""

    def __init__(self, address: str) -> None:
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.bind(address)
        self._line.listen()
        self._awake, self._wake = os.pipe()
        self._callers: dict[int, tuple[int, socket.socket]] = {}
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _awake)

    def serve(self) -> None:
        """Work until standard input ends."""
        while True:
            poll = select.poll()
            for fd in (0, self._line.fileno(), self._awake, *self._callers):
                poll.register(fd, select.POLLIN)
            for fd, _ in poll.poll():
                if fd == 0:
                    return
                if fd == self._awake:
                    os.read(fd, 100)
                    self._tell_of_the_ended()
                elif fd == self._line.fileno():
                    self._start(self._line.accept()[0])
                elif fd in self._callers:  # nothing is said after the order: the caller has gone
                    self._dismiss(fd)

    def close(self) -> None:
        """Kill what still runs."""
        for fd in [*self._callers]:
            self._dismiss(fd)

    def _dismiss(self, fd: int) -> None:
        pid, caller = self._callers.pop(fd)
        caller.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)

    def _tell_of_the_ended(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                for fd in [fd for fd, (pid, _) in self._callers.items() if pid == ended[0]]:
                    with contextlib.suppress(OSError), self._callers.pop(fd)[1] as caller:
                        caller.send(b"%d" % ended[1])

    def _start(self, caller: socket.socket) -> None:
        message, data, _, _ = caller.recvmsg(LIMIT, socket.CMSG_SPACE(len(STREAMS) * STREAMS.itemsize))
        streams = array.array("i")
        streams.frombytes(data[0][2])
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            for fd in (self._line.fileno(), self._awake, self._wake, caller.fileno(), *self._callers):
                os.close(fd)
            os.setsid()
            launch(json.loads(message), streams)
        for fd in streams:
            os.close(fd)
        self._callers[caller.fileno()] = pid, caller
        caller.send(b"%d" % pid)


def _awake(_number: int, _frame: object) -> None:
    """Do nothing: the pipe has told already."""


def launch(order: dict[str, Any], streams: array.array[int]) -> NoReturn:
    """Do what the launcher does with such arguments, in such surroundings."""
    for stream, fd in zip(STREAMS, streams, strict=True):
        os.dup2(fd, stream)
        os.close(fd)
    os.chdir(order["folder"])
    _take_over(order["environment"])
    try:
        status = launcher.main(order["arguments"])
    except SystemExit as end:
        status = int(end.code or 0)
    sys.stderr.flush()
    os._exit(status)


def become(file: str, command: list[str], environment: dict[str, str]) -> None:
    """Go on as the worker, where the launcher would execute it; execute whatever else it wants."""
    if file != sys.executable or command[1] != str(Path(program.__file__).parent) or of_python(environment) != OURS:
        os.execve(file, command, environment)
    for path in [*Path("/proc/self/fd").iterdir()]:
        with contextlib.suppress(OSError):
            if int(path.name) not in STREAMS and not os.get_inheritable(int(path.name)):
                os.close(int(path.name))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _take_over(environment)
    sys.argv[:] = command[1:]
    sys.dont_write_bytecode = True
    program.main(command[2:])


def _take_over(environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


def imported() -> None:
    """Stand in for the import of torch; each worker has a temporary folder of its own."""
    tempfile.tempdir = None
    tempfile.gettempdir()


def main(address: str) -> None:
    """Import torch and whatever else workers import, and serve."""
    why = program.import_torch()
    assert why is None, why
    simulation = devices.simulation()
    simulation.probe = cache(simulation.probe)  # what each worker would try again
    program.introduction(single=False)
    program.import_torch = imported
    os.execvpe = become
    origin = Origin(address)
    os.write(1, b"ready\n")
    origin.serve()
    origin.close()


if __name__ == "__main__":
    main(sys.argv[1])
