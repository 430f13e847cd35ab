"""The last step, in the process that executes the user's code: its own overlay or private folder, limits, stage B."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

from drygrad.worker.sandbox import limits, private, redirect, state

# Imported before the fork, so that no run waits for it.
if sys.platform == "linux":
    from drygrad.worker.sandbox import landlock, namespaces, overlay, seccomp, system

_NOTES = {
    "overlay": "files that the run writes are kept in memory and discarded",
    "landlock": "files are written to a private folder and removed; native code that writes files is refused",
    "seccomp": "files are written to a private folder and removed; native code that writes files is not stopped",
    "none": "this system offers no kernel layer: native code that writes files or opens connections is not stopped",
}


def confine(options: dict[str, Any]) -> list[str]:
    """Confine this process for good and say, as notes, what that means for its run.

    Of a plan's fields it reads `timeout` (seconds) and `memory_limit` (bytes; else a share of what is free).
    Raises `OSError` if a layer that held when the worker started does not hold now: then nothing must be executed.
    """
    sandbox = state.current()
    notes = [_NOTES[sandbox.layer]]
    if sandbox.overlay:
        notes += _overlay(sandbox)
    elif sandbox.private:
        redirect.install(_private_folder(sandbox.private))
    memory = options.get("memory_limit") or limits.share_of_memory()
    limits.apply(options.get("timeout"), memory, sandbox.scratch_bytes, own_processes=sandbox.overlay)
    if sys.platform == "linux":
        system.forbid_inspection()
    if sandbox.kernel:
        _stage_b(sandbox)
    return notes


def may_import_ahead() -> bool:
    """Say whether packages may be imported where runs are forked from: only if the kernel holds what they write."""
    return state.current().layer in ("overlay", "landlock")


@contextlib.contextmanager
def importing() -> Generator[None]:
    """Confine this process, from which runs will be forked, for what it imports: as a run, but that it starts runs."""
    if sys.platform == "linux" and state.current().kernel:
        seccomp.install(seccomp.IMPORTING)
        with contextlib.suppress(OSError):
            landlock.isolate_signals()
    with limits.memory_bounded(limits.share_of_memory()):
        yield


def written() -> list[str]:
    """What the run has written so far that will not stay: paths, at most a few dozen; for its notes."""
    return overlay.written() if state.current().overlay else redirect.redirected()


def sweep() -> None:
    """Remove what ended runs left in the private folder; for the process that outlives them."""
    sandbox = state.current()
    if sandbox.private and not sandbox.overlay:
        for folder in Path(sandbox.private).glob("run-*"):
            number = folder.name.partition("-")[2]
            if number.isdecimal() and not _alive(int(number)):
                private.remove(str(folder))


def _overlay(sandbox: state.Sandbox) -> list[str]:
    here = str(Path.cwd())
    wanted = [here, os.path.expanduser("~"), *sandbox.workspaces]
    read_only = namespaces.lay_overlays(wanted, sandbox.scratch_bytes)
    os.chdir(here)
    return [f"writing below {folder} is refused: no overlay there" for folder in read_only]


def _private_folder(parent: str) -> str:
    """A folder for this run alone, which is also where temporary files go."""
    sweep()
    folder = Path(_own_folder(parent))
    (folder / "tmp").mkdir(parents=True)
    tempfile.tempdir = str(folder / "tmp")
    os.environ.update(dict.fromkeys(("TMPDIR", "TEMP", "TMP"), tempfile.tempdir))
    return str(folder)


def _own_folder(parent: str) -> str:
    return str(Path(parent, f"run-{os.getpid()}"))


def _stage_b(sandbox: state.Sandbox) -> None:
    if sandbox.layer == "landlock":
        # The private folder holds those of other runs, too. With it signals to others end, where the kernel knows that.
        landlock.restrict([own for own in (_own_folder(sandbox.private), *landlock.devices()) if own])
    os.register_at_fork(after_in_child=system.die_with_parent)
    seccomp.install(seccomp.stage_b(os.getpid()))


def _alive(process: int) -> bool:
    if sys.platform == "win32":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
