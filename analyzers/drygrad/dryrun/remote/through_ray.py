"""Executed by an interpreter that has Ray: it runs a command on a node of a cluster, its streams connected to ours.

A job of Ray's has no standard input, so an actor starts the command and passes on what it reads and writes.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from types import FrameType
from typing import Any

_CHUNK = 1 << 18
_CONNECTING = 20.0
_NODES_OWN = "python"
"""What stands for the interpreter that Ray itself runs in, on its node."""


class Command:
    """A process on a node of the cluster; its methods wait in threads of the actor."""

    def __init__(self, words: Sequence[str]) -> None:
        command = [sys.executable if words[0] == _NODES_OWN else words[0], *words[1:]]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        try:
            self._process = subprocess.Popen(command, **pipes)
        except OSError as error:
            shown = f"{command[0]}: {error.strerror}"
            self._process = subprocess.Popen(["sh", "-c", 'echo "$0" >&2; exit 127', shown], **pipes)

    def write(self, data: bytes) -> None:
        """Write to its standard input, which ends with nothing."""
        stream = self._process.stdin
        assert stream is not None
        with contextlib.suppress(BrokenPipeError, ValueError):
            if data:
                stream.write(data)
                stream.flush()
            else:
                stream.close()

    def read(self, errors: bool) -> bytes:
        """Return what it writes next, to standard error or output; nothing at the end."""
        stream = self._process.stderr if errors else self._process.stdout
        assert stream is not None
        return os.read(stream.fileno(), _CHUNK)

    def status(self) -> int:
        """Wait for its end; return how that was."""
        return self._process.wait()


def main(arguments: Sequence[str]) -> int:
    """Run the command behind ``--``; return its exit status."""
    at = arguments.index("--")
    options, words = _options(arguments[:at]), list(arguments[at + 1 :])
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        ray: Any = importlib.import_module("ray")
    except ModuleNotFoundError:
        return _failed(f"there is no Ray in {sys.executable}")
    try:
        _require_listener(options.address)
        ray.init(address=options.address, log_to_driver=False, logging_level="error", configure_logging=False)
    except Exception as error:  # noqa: BLE001 - whatever is in the way there is told
        return _failed(f"no cluster at {options.address}: {_first_line(error)}")
    wanted = {"num_cpus": options.num_cpus, "num_gpus": options.num_gpus, "resources": json.loads(options.resources)}
    there = ray.remote(**wanted, max_concurrency=8)(Command).remote(words)
    try:
        return _connected(ray, there, wanted)
    except ray.exceptions.RayError as error:
        return _failed(_first_line(error))
    finally:
        ray.kill(there)


def _require_listener(address: str) -> None:
    """Raise OSError where nobody listens at an address: Ray itself would ask again for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if port.isdecimal():
        with socket.create_connection((host, int(port)), timeout=_CONNECTING):
            pass


def _connected(ray: Any, there: Any, wanted: dict[str, Any]) -> int:
    """Pass on what goes there and what comes back until the command ends."""
    first = there.read.remote(False)
    if not ray.wait([first], timeout=1)[0]:
        asked = ", ".join(f"{name}={value}" for name, value in wanted.items() if value)
        _tell(f"waiting for {asked}")
    threading.Thread(target=_forward, args=(ray, there), daemon=True).start()
    errors = threading.Thread(target=_back, args=(ray, there, True, there.read.remote(True)), daemon=True)
    errors.start()
    _back(ray, there, False, first)
    errors.join(5)
    return int(ray.get(there.status.remote()))


def _forward(ray: Any, there: Any) -> None:
    data = b"-"
    while data:
        data = os.read(0, _CHUNK)
        ray.get(there.write.remote(data))


def _back(ray: Any, there: Any, errors: bool, waiting: Any) -> None:
    while data := ray.get(waiting):
        waiting = there.read.remote(errors)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(2 if errors else 1, rest) :]


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("ray", allow_abbrev=False)
    parser.add_argument("--address", default="auto")
    parser.add_argument("--num-cpus", type=float, default=1)
    parser.add_argument("--num-gpus", type=float, default=0)
    parser.add_argument("--resources", default="{}")
    return parser.parse_args(arguments)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _tell(text: str) -> None:
    print(f"ray: {text}", file=sys.stderr, flush=True)


def _failed(text: str) -> int:
    _tell(text)
    return 1


def _leave(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
