"""What stays beside the worker on another machine: it keeps the project's files as they are sent, outside the sandbox.

All else that comes is the worker's. When the other side goes away, so does the worker, and then the files.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from drygrad.worker.sandbox import private
from drygrad.worker.wire import Channel, encoded

_WORKER = Path(__file__).resolve().parents[1]
_SANDBOX = _WORKER / "sandbox"
_FILES = b'{"type": "files"'
"""How a message begins that is not the worker's."""
LAST_WORDS = 5.0
"""Seconds that a worker has to end by itself."""


def main(order: Mapping[str, Any]) -> int:
    """Serve as the order says; return the exit status of the worker."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    shared = order.get("root")
    if shared is not None and not os.path.isdir(shared):
        why = f"the project's folder is not there as {shared}: send its files, or map its path"
        _say({"type": "unusable", "why": why})
        return 2
    with contextlib.ExitStack() as held:
        root = shared or _private_root(held, str(order["name"]))
        _say({"type": "placed", "root": root})
        return _serve(root, receives=shared is None)


def _private_root(held: contextlib.ExitStack, name: str) -> str:
    folder = Path(held.enter_context(private.folder(None)), os.path.basename(name) or "project")
    folder.mkdir()
    return str(folder)


def _serve(root: str, *, receives: bool) -> int:
    python = [sys.executable, "-I", "-S", str(_SANDBOX)]
    command = [*python, "--workspace", root, "--", sys.executable, str(_WORKER)]
    single = ["--no-fork"] * (sys.platform != "linux")
    worker = subprocess.Popen([*command, *single], stdin=subprocess.PIPE, cwd=root)
    stream = worker.stdin
    assert stream is not None
    threading.Thread(target=_pass_on, args=(stream.fileno(), root if receives else None), daemon=True).start()
    try:
        return worker.wait()
    finally:
        worker.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.wait(LAST_WORDS)
        worker.kill()


def _pass_on(to_worker: int, root: str | None) -> None:
    """Take what is ours out of what comes, and give the worker the rest; end its input with ours."""
    channel = Channel(0, to_worker)
    while not channel.closed:
        for line in channel.lines():
            if line.startswith(_FILES):
                if root is not None:
                    keep(root, json.loads(line))
            else:
                channel.send_line(line + b"\n")
    os.close(to_worker)


def keep(root: str, message: Mapping[str, Any]) -> None:
    """Write and remove files below a folder. What cannot be written is told on standard error."""
    top = os.path.join(root, "")
    for name in message["gone"]:
        with contextlib.suppress(OSError, ValueError):
            os.unlink(_inside(top, name))
    for name, content in message["put"].items():
        try:
            path = _inside(top, name)
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            made = f"{path}.drygrad-new"
            with open(made, "wb") as file:
                file.write(base64.b64decode(content))
            os.replace(made, path)
        except (OSError, ValueError) as error:
            print(f"drygrad: {name} cannot be written: {error}", file=sys.stderr)


def _inside(top: str, name: str) -> str:
    path = os.path.normpath(os.path.join(top, name))
    if not path.startswith(top):
        raise ValueError(f"{name} leads out of the project")
    return path


def _say(message: dict[str, Any]) -> None:
    os.write(1, encoded(message))


def _leave(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
