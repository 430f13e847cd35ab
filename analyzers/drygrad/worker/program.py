"""The worker as a program: private streams for the wire, torch imported, then the zygote or a single run."""

from __future__ import annotations

import os
import platform
import signal
import sys
from typing import Any

from drygrad.worker import processes
from drygrad.worker.wire import Channel

OLDEST_TORCH = (2, 7)


def main(arguments: list[str]) -> int:
    """Serve until standard input ends; return the status to exit with."""
    channel = private_channel()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    why = import_torch(channel)
    if why is not None:
        channel.send(
            {"type": "unusable", "why": why, "python": platform.python_version(), "executable": sys.executable}
        )
        return 2
    single = "--no-fork" in arguments or not processes.CAN_FORK
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


def import_torch(channel: Channel) -> str | None:
    """Import torch, and what an optimizer would import at its first use; return why that cannot be, if so."""
    if processes.CAN_FORK:
        return _try_first(channel) or _import()
    return _import()


def _try_first(channel: Channel) -> str | None:
    """Let a child import torch's native part first, so that a crash there becomes a sentence."""
    from importlib.util import find_spec

    try:
        found = find_spec("torch")
    except (ImportError, ValueError) as error:
        return f"torch cannot be imported: {type(error).__name__}: {error}"
    if found is None:
        return f"no torch in {sys.executable}"
    return None


def _import() -> str | None:
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
        return f"torch {version} is too old for a dry run: it needs {OLDEST_TORCH[0]}.{OLDEST_TORCH[1]} or newer"
    _import_ahead()
    return None


def _import_ahead() -> None:
    """Import what torch itself puts off until it is used; none of it is needed to begin."""
    import importlib

    for name in ("torch._dynamo", "torch.utils.data", "torch.utils.checkpoint", "torch.amp", "drygrad.worker.child"):
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - a run that needs it will say what is missing
            print(f"{name} cannot be imported ahead: {error!r}", file=sys.stderr)


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
        "sandbox": state.current().layers,
    }
