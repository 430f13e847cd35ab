"""Applies the best layer that works here and executes the user's interpreter in it.

The process that was started stays as the guard: it ends when the worker ends, takes every descendant with it, and
removes the private folder. If the guard is killed, the kernel ends the worker; if whoever started the guard ends, the
kernel asks the guard to leave.
"""

from __future__ import annotations

import contextlib
import getopt
import json
import os
import select
import signal
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from drygrad.worker.sandbox import offline, private, probe
from drygrad.worker.sandbox.state import DEFAULT_SCRATCH_BYTES, VARIABLE, Sandbox

LAYERS = ("overlay", "landlock", "seccomp", "none")
USAGE = (
    "usage: sandbox [--layers auto|overlay|landlock|seccomp|none] [--workspace DIR]... [--private DIR] -- COMMAND ..."
)
_CANNOT_EXECUTE, _NO_LAYER, _UNUSABLE_ARGUMENTS = 127, 126, 2


class Options(NamedTuple):
    """The command line, read."""

    layers: tuple[str, ...]
    workspaces: list[str]
    private: str | None
    scratch_bytes: int
    command: list[str]


def options(arguments: list[str]) -> Options:
    """Read the command line. Raises `getopt.GetoptError` for what it does not know."""
    pairs, command = getopt.getopt(arguments, "", ["layers=", "workspace=", "private=", "scratch-bytes="])
    values = dict(pairs)
    layer = values.get("--layers", "auto")
    if layer not in ("auto", *LAYERS) or not command:
        raise getopt.GetoptError("no such layer" if command else "no command")
    return Options(
        layers=LAYERS if layer == "auto" else (layer,),
        workspaces=[str(Path(value).resolve()) for name, value in pairs if name == "--workspace"],
        private=values.get("--private"),
        scratch_bytes=int(values.get("--scratch-bytes", DEFAULT_SCRATCH_BYTES)),
        command=command,
    )


def main(arguments: list[str]) -> int:
    """Run the command in the sandbox and return its exit status, 128 more than the signal that ended it."""
    if arguments == ["--probe"]:
        print(json.dumps(probe.layers()))
        return 0
    try:
        chosen = options(arguments)
    except (getopt.GetoptError, ValueError) as error:
        print(f"{error}\n{USAGE}", file=sys.stderr)
        return _UNUSABLE_ARGUMENTS
    if sys.platform != "linux":
        return _python_only(chosen, dict.fromkeys(LAYERS[:3], f"only on Linux, not on {sys.platform}"))
    return _on_linux(chosen)


def _python_only(chosen: Options, reasons: dict[str, bool | str]) -> int:
    import subprocess

    with private.folder(chosen.private) as folder:
        sandbox = Sandbox("none", folder, tuple(chosen.workspaces), chosen.scratch_bytes, reasons)
        return subprocess.call(chosen.command, env=_environment(sandbox))


def _on_linux(chosen: Options) -> int:
    from drygrad.worker.sandbox import layers, system

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # it may have been ignored by whoever started this
    system.die_with_parent(signal.SIGTERM)
    if _is_alone():
        return 0
    system.adopt_orphans()
    _close_on_execution()
    found: dict[str, bool | str] = dict.fromkeys(LAYERS, "not asked for")
    for layer in chosen.layers:
        try:
            return _guarded(layer, chosen, found)
        except layers.Unavailable as error:
            found[layer] = str(error)
        except layers.CannotExecute as error:
            print(f"drygrad: {error}", file=sys.stderr)
            return _CANNOT_EXECUTE
    print(f"drygrad: no sandbox here: {found}", file=sys.stderr)
    return _NO_LAYER


def _guarded(layer: str, chosen: Options, found: dict[str, bool | str]) -> int:
    """Start the command in one layer and see it to its end."""
    from drygrad.worker.sandbox import layers, namespaces

    in_memory = contextlib.nullcontext(namespaces.TEMPORARY)
    with in_memory if layer == "overlay" else private.folder(chosen.private) as folder:
        after = LAYERS[LAYERS.index(layer) + 1 :]
        holding = {**found, layer: True, **dict.fromkeys(after, f"not needed beside {layer}")}
        sandbox = Sandbox(layer, folder, tuple(chosen.workspaces), chosen.scratch_bytes, holding)
        trial = next(iter(chosen.workspaces), str(Path.cwd()))
        worker = layers.start(
            layer, layers.Job(chosen.command, _environment(sandbox), folder, chosen.scratch_bytes, trial)
        )
        try:
            layers.leave_standard_streams()
            return layers.exit_code(os.waitpid(worker, 0)[1])
        finally:
            _end_descendants()


def _environment(sandbox: Sandbox) -> dict[str, str]:
    return {**os.environ, **offline.variables(sandbox.private), VARIABLE: sandbox.to_json(), "PWD": str(Path.cwd())}


def _is_alone() -> bool:
    """Say whether whoever started this had gone before the kernel was asked to tell of it, and left nothing to read."""
    import fcntl
    import termios

    poll = select.poll()
    poll.register(0, 0)
    if not any(event & select.POLLHUP for _, event in poll.poll(0)):
        return False
    unread = fcntl.ioctl(0, termios.FIONREAD, struct.pack("i", 0))
    return struct.unpack("i", unread) == (0,)


def _leave(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _close_on_execution() -> None:
    """Keep whatever else the parent left open from the worker."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with contextlib.suppress(OSError):
                os.set_inheritable(int(name), False)


def _end_descendants() -> None:
    """Kill what is left of the worker; the children of the killed become this process's, until there are none."""
    with contextlib.suppress(ChildProcessError):
        while True:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            for child in _children():
                os.kill(child, signal.SIGKILL)
            os.waitpid(-1, 0)


def _children() -> Iterator[int]:
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            after_name = status.read_text(errors="replace").rpartition(")")[2].split()
            if int(after_name[1]) == os.getpid():
                yield int(status.parent.name)
