"""Which layers hold on this system, found by trying each in a child that ends at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from drygrad.worker.sandbox import state

_TRIAL_BYTES = 1 << 20


def layers() -> dict[str, bool | str]:
    """Layer → True, or the reason why it does not hold; in a confined process what its launcher found.

    Only for a process with one thread, as the launcher is (`--probe`): it forks.
    """
    found = state.current().layers
    return dict(found) or {name: _attempt(check) for name, check in _CHECKS.items()}


def _attempt(check: Callable[[], None]) -> bool | str:
    if sys.platform != "linux":
        return f"only on Linux, not on {sys.platform}"
    try:
        check()
    except OSError as error:
        return str(error)
    return True


def _overlay() -> None:
    from drygrad.worker.sandbox import layers

    # A folder cannot be executed; that it comes to trying so says that everything before has worked.
    try:
        layers.start("overlay", layers.Job(["/"], {}, "", _TRIAL_BYTES, os.path.expanduser("~")))
    except layers.CannotExecute:
        return
    except layers.Unavailable as error:
        raise OSError(str(error)) from error


def _landlock() -> None:
    from drygrad.worker.sandbox import landlock

    landlock.version()


def _seccomp() -> None:
    from drygrad.worker.sandbox import seccomp

    seccomp.available()


_CHECKS = {"overlay": _overlay, "landlock": _landlock, "seccomp": _seccomp}
