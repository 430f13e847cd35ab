"""Programs forked from a process that has imported what they import, for tests that each need one of their own.

``python forked.py FD MODULE...`` is that process; ``Forks`` starts it, and ``Forked`` is a program that it has forked.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

MESSAGE = 1 << 20


class Forked:
    """A forked program, as ``subprocess.Popen`` has it."""

    def __init__(self, pid: int, ended: int, stdin: int, stdout: int) -> None:
        self.pid = pid
        self.stdin: BinaryIO = os.fdopen(stdin, "wb")
        self.stdout: BinaryIO = os.fdopen(stdout, "rb")
        self.stderr: BinaryIO | None = None
        self.returncode: int | None = None
        self._ended = ended

    def poll(self) -> int | None:
        """Return the exit status, if the program has ended."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status."""
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._ended, selectors.EVENT_READ)
                if not selector.select(timeout):
                    raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            self.returncode = os.waitstatus_to_exitcode(int(os.read(self._ended, 100)))
            os.close(self._ended)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the program has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the program."""
        self.send_signal(signal.SIGKILL)


class Forks:
    """The process that forks."""

    def __init__(self, *modules: str, env: Mapping[str, str], python: str = sys.executable) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [python, __file__, str(theirs.fileno()), *modules],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env={**os.environ, **env},
        )
        theirs.close()

    def start(self, script: Sequence[str], env: Mapping[str, str], *, cwd: str = "", joined: bool = False) -> Forked:
        """Run a script in a fork, with its arguments, pipes, and variables besides those of its origin.

        ``joined`` has stderr go where stdout goes; else it stays that of the origin.
        """
        pipes = [os.pipe() for _ in range(3)]
        (child_in, stdin), (stdout, child_out), (ended, child_ended) = pipes
        request = json.dumps({"script": [*script], "env": {**env}, "cwd": cwd, "joined": joined}).encode()
        socket.send_fds(self._socket, [request], [child_in, child_out, child_ended])
        for fd in (child_in, child_out, child_ended):
            os.close(fd)
        return Forked(int(self._socket.recv(MESSAGE)), ended, stdin, stdout)

    def close(self) -> None:
        """End the process."""
        self._socket.close()
        self._process.wait(60)


def serve(requests: socket.socket) -> Sequence[str]:
    """Fork at each request until there are no more; return, in a fork, what it has to run."""
    ended: dict[int, int] = {}
    awake, wake = os.pipe()
    for fd in (awake, wake):
        os.set_blocking(fd, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _awake)
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        selector.register(awake, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd == awake:
                    os.read(awake, 100)
                    _reap(ended)
                    continue
                message, fds, _, _ = socket.recv_fds(requests, MESSAGE, 3)
                if not message:
                    sys.exit()
                request = json.loads(message)
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    selector.close()
                    for fd in (awake, wake, *ended.values(), fds[2], requests.detach()):
                        os.close(fd)
                    os.dup2(fds[0], 0)
                    for standard in (1, 2) if request["joined"] else (1,):
                        os.dup2(fds[1], standard)
                    for fd in fds[:2]:
                        os.close(fd)
                    os.environ.update(request["env"])
                    os.chdir(request["cwd"] or ".")
                    return request["script"]
                ended[pid] = fds[2]
                for fd in fds[:2]:
                    os.close(fd)
                requests.send(b"%d" % pid)


def _awake(_number: int, _frame: object) -> None:
    """Do nothing: the pipe has told already."""


def _reap(ended: dict[int, int]) -> None:
    while ended:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        fd = ended.pop(pid)
        os.write(fd, b"%d" % status)
        os.close(fd)


if __name__ == "__main__":
    for name in sys.argv[2:]:
        importlib.import_module(name)
    gc.freeze()
    sys.argv[:] = serve(socket.socket(fileno=int(sys.argv[1])))
    sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
