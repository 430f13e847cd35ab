"""How each layer starts the worker: fork, confine, execute. A layer that fails says why and leaves nothing."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from drygrad.worker.sandbox import landlock, limits, namespaces, overlay, seccomp, system

_NOT_EXECUTED = b"\0"


class Unavailable(Exception):
    """A layer does not hold on this system; says why."""


class CannotExecute(Exception):
    """The layer holds, but the command could not be executed; says why."""


class Job(NamedTuple):
    """What a layer starts."""

    command: list[str]
    environment: dict[str, str]
    private: str
    """The folder that stays writable."""
    scratch_bytes: int
    trial: str
    """The folder over which an overlay is tried."""


def start(layer: str, job: Job) -> int:
    """Start the job in a layer; the answer is the process whose end is the end of all of it.

    Raises `Unavailable` or `CannotExecute`, and then no process is left.
    """
    reading, report = os.pipe()
    try:
        process = _STARTERS[layer](job, report)
    except OSError as error:
        os.close(reading)
        raise Unavailable(str(error)) from error
    finally:
        os.close(report)
    with open(reading, "rb") as stream:
        problem = stream.read()
    if not problem:
        return process
    os.waitpid(process, 0)
    text = problem.lstrip(_NOT_EXECUTED).decode(errors="replace")
    raise CannotExecute(text) if problem.startswith(_NOT_EXECUTED) else Unavailable(text)


def exit_code(status: int) -> int:
    """A shell's number for the status that `wait` gave."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def leave_standard_streams() -> None:
    """Hold the wire's two ends no longer, so that the other side sees the worker close them."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)


def _start_overlay(job: Job, report: int) -> int:
    def first_process() -> None:
        namespaces.build(job.scratch_bytes, job.trial)
        worker = _fork_mapped(namespaces.INNER, report, lambda: _execute(job, report, _confine_in_namespaces))
        os.close(report)
        leave_standard_streams()
        while True:
            process, status = os.wait()
            if process == worker:
                os._exit(exit_code(status))

    overlay.require_own(job.trial)
    return _fork_mapped(namespaces.OUTER, report, first_process)


def _start_by(confine: Callable[[Job], None]) -> Callable[[Job, int], int]:
    def start_layer(job: Job, report: int) -> int:
        guard = os.getpid()
        process = os.fork()
        if process:
            return process
        system.die_with_parent()
        if os.getppid() != guard:
            os._exit(1)
        _report_problems(report, lambda: _execute(job, report, confine))

    return start_layer


def _confine_in_namespaces(_job: Job) -> None:
    # With these each run mounts its overlays, whose work folders only their holder may enter; the mounts that it finds
    # are locked against them.
    _keep_capabilities((system.CAP_SYS_ADMIN, *system.FILE_CAPABILITIES))
    seccomp.install(seccomp.STAGE_A)


def _confine_by_landlock(job: Job) -> None:
    seccomp.available()
    landlock.restrict([job.private, *landlock.devices()])
    _confine_by_seccomp(job)


def _confine_by_seccomp(job: Job) -> None:
    _keep_capabilities(system.FILE_CAPABILITIES if os.geteuid() == 0 else ())
    try:
        truncation = seccomp.BEFORE_LANDLOCK_3 if landlock.version() < 3 else ()
    except OSError:
        truncation = ()
    seccomp.install((*seccomp.STAGE_A, *seccomp.WITHOUT_NAMESPACES, *truncation))


def _keep_capabilities(keep: tuple[int, ...]) -> None:
    system.limit_capabilities(keep)
    system.set_capabilities(keep, ambient=bool(keep))


def _confine_by_nothing(_job: Job) -> None:
    """The audit hook and the redirection in the worker are all that holds."""


def _execute(job: Job, report: int, confine: Callable[[Job], None]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    limits.offer_to_the_system()
    confine(job)
    with contextlib.suppress(OSError):
        os.chdir(job.environment.get("PWD", "."))
    try:
        os.execvpe(job.command[0], job.command, job.environment)
    except OSError as error:
        os.write(report, _NOT_EXECUTED + f"{job.command[0]}: {error}".encode())
        os._exit(1)


def _fork_mapped(flags: int, report: int, body: Callable[[], None]) -> int:
    """Fork into new namespaces, map users and groups from here, and have the child do `body`."""
    waiting, mapped = os.pipe()
    process = system.fork_into(flags, signal.SIGCHLD)
    if process == 0:
        os.close(mapped)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        system.die_with_parent()
        if not os.read(waiting, 1):
            os._exit(1)
        os.close(waiting)
        _report_problems(report, body)
    os.close(waiting)
    try:
        namespaces.map_identity(process)
        os.write(mapped, b"x")
    except OSError:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        raise
    finally:
        os.close(mapped)
    return process


def _report_problems(report: int, body: Callable[[], None]) -> NoReturn:
    try:
        body()
    except OSError as error:
        os.write(report, str(error).encode())
    finally:
        os._exit(1)


_STARTERS: dict[str, Callable[[Job, int], int]] = {
    "overlay": _start_overlay,
    "landlock": _start_by(_confine_by_landlock),
    "seccomp": _start_by(_confine_by_seccomp),
    "none": _start_by(_confine_by_nothing),
}
