"""The worker as a program: private streams for the wire, torch imported, then the zygote or a single run."""

from __future__ import annotations

import gc
import os
import platform
import signal
import sys
import tempfile
import traceback
from contextlib import suppress
from typing import Any, Callable

from drygrad.worker import allocation, idle_compiler, outcomes, processes
from drygrad.worker.wire import Channel

_AHEAD = (
    *("torch.utils.data", "torch.utils.checkpoint", "torch.amp"),
    *("drygrad.worker.child", "drygrad.worker.sandbox.child", "drygrad.worker.lonely_group"),
    "drygrad.worker.sandbox.audit",
)
_NOT_EVERYWHERE = ("torch.profiler._cupti_monitor",)  # newer releases import it at an optimizer's first step

OLDEST_TORCH = (2, 7)
UNUSABLE = 2
"""The exit status where this interpreter cannot serve."""


def main(arguments: list[str]) -> None:
    """Serve until standard input ends, and end: at once, for an interpreter with torch takes a second to clear up."""
    try:
        status = serve(arguments)
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - it is told, and nothing is cleared up here either
        traceback.print_exc()
        os._exit(1)
    os._exit(status)


def serve(arguments: list[str]) -> int:
    """Serve until standard input ends; return the status to exit with."""
    channel = private_channel()
    if sys.platform == "linux":
        from drygrad.worker.sandbox import system

        system.forbid_inspection()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    single = "--no-fork" in arguments or not processes.CAN_FORK
    imported = _nothing if single else _outlive_a_crash(channel)
    why = import_torch()
    imported()
    if why is not None:
        _unusable(channel, why)
        return UNUSABLE
    channel.send(introduction(single))
    if single:
        from drygrad.worker import single_run

        return single_run.serve(channel)
    from drygrad.worker.zygote import Zygote

    Zygote(channel).serve()
    return 0


def private_channel() -> Channel:
    """Take standard input and output for the wire; what is read then ends, what is printed goes to standard error."""
    channel = Channel(os.dup(0), os.dup(1))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return channel


def _unusable(channel: Channel, why: str) -> None:
    channel.send({"type": "unusable", "why": why, "python": platform.python_version(), "executable": sys.executable})


def _nothing() -> None:
    """Have nobody to tell."""


def _outlive_a_crash(channel: Channel) -> Callable[[], None]:
    """Go on in a child; the process that stays behind tells if it crashes before the returned function is called.

    A broken torch does so while it is imported.
    """
    parent, (reader, writer) = os.getpid(), os.pipe()
    pid = os.fork()
    if pid == 0:
        processes.die_with(parent)
        os.close(reader)
        return lambda: _say_imported(writer)
    os.close(channel.read_fd)
    os.close(writer)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        if not os.read(reader, 1):
            _unusable(
                channel, f"torch cannot be imported: the import ends with {outcomes.signal_name(os.WTERMSIG(status))}"
            )
        os._exit(128 + os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def _say_imported(fd: int) -> None:
    os.write(fd, b"1")
    os.close(fd)


def import_torch() -> str | None:
    """Import torch, and what an optimizer would import at its first use; return why that cannot be, if so."""
    allocation.keep_freed_memory()
    with suppress(FileNotFoundError):
        tempfile.gettempdir()  # Python finds it by writing there, which not every run may do
    # Threads that spin while they wait for each other make small operations slow wherever the cores are busy.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("KMP_BLOCKTIME", "0")
    # Whoever merely asks whether there is a GPU does not speak to its driver, after which no fork could use it.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    gc.disable()  # thousands of classes are made now, and none of them is garbage
    try:
        import torch

        version = torch.__version__
        numbers = tuple(int(part) for part in str(version).split("+")[0].split(".")[:2])
    except ModuleNotFoundError as error:
        if error.name == "torch":
            return f"no torch in {sys.executable}"
        return f"torch cannot be imported: {type(error).__name__}: {error}"
    except BaseException as error:  # noqa: BLE001 - whatever a broken torch raises is told to the user
        return f"torch cannot be imported: {type(error).__name__}: {error}"
    if numbers < OLDEST_TORCH:
        return f"torch {version} is too old for a dry run, which needs {OLDEST_TORCH[0]}.{OLDEST_TORCH[1]} or newer"
    _import_ahead()
    idle_compiler.install()
    gc.freeze()  # what every run shares stays as it is, and no collector visits it
    gc.enable()
    return None


def _import_ahead() -> None:
    """Import what torch itself puts off until it is used; none of it is needed to begin."""
    import importlib.util

    from drygrad.worker.instruments import all_instruments

    there = [name for name in _NOT_EVERYWHERE if importlib.util.find_spec(name)]
    for name in (*_AHEAD, *there):
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - a run that needs it will say what is missing
            print(f"{name} cannot be imported ahead: {error!r}", file=sys.stderr)
    all_instruments()


def introduction(single: bool) -> dict[str, Any]:
    """Return the message that says who we are and what can be done here."""
    import torch

    from drygrad.worker import devices
    from drygrad.worker.sandbox import state

    return {
        "type": "ready",
        "pid": os.getpid(),
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "executable": sys.executable,
        "once": single,
        **devices.survey(single),
        "sandbox": dict(state.current().layers),
    }
