"""Inputs that a program of the project gives: it runs until it first calls the target, which then runs in its place.

The call is made where the program makes it, in the modes and contexts that it has entered by then. Nothing of the
program goes on behind that, and what happens on the way is not told.
"""

from __future__ import annotations

import inspect
import os
import signal
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Callable

import torch

from drygrad.worker import command_line, deadline, errors, processes, pytest_run, surroundings, transforms
from drygrad.worker.copying import whole_copy
from drygrad.worker.elsewhere import CallFailed
from drygrad.worker.inputs import Given, InputError
from drygrad.worker.namespace import Namespace, give_source
from drygrad.worker.search import isolated
from drygrad.worker.search.isolated import WAITING, Overdue
from drygrad.worker.search.through import given_by

if TYPE_CHECKING:
    from drygrad.worker.absent import Absences
    from drygrad.worker.hooks import Hooks
    from drygrad.worker.run import Run

_MOST_CALLS, _CALL_SECONDS = 24, 5.0
"""So many calls are tried for one that comes by what is wanted, each for so long."""
_AGAIN = 0.5
"""Seconds after which it is asked again whether the time is up: a program may have passed over that."""


class Over(BaseException):
    """The run of the target is over, and with it the program; no handler of the user's shall catch it."""


class OverInTests(Over, KeyboardInterrupt):
    """The same, for ``pytest``: it lets nothing else end its session."""


class Call:
    """The call of the target that a program has come to."""

    def __init__(self, frame: FrameType, plan: dict[str, Any], source: str, seconds: float = 0.0) -> None:
        self.names = frame.f_globals
        """Those of the target's module."""
        self.seconds = seconds
        """How long it took to come to it, imports not counted."""
        self.code = frame.f_code
        owner, values = given_by(inspect.getargvalues(frame), self.code, plan.get("method_of"), source)
        asked: dict[str, Any] = plan.get("program") or {}
        self.is_applied = asked.get("applied") is True
        """Whether autograd has called it, without gradients, for who applies it."""
        self._given = None if self.is_applied else owner, values
        self._kept = self._copied() if plan.get("experiments") else None
        self._is_given = False

    def give(self) -> tuple[Any, list[Given]]:
        """Return the object and the arguments; later ones are copies of what they were. Raises InputError."""
        if not self._is_given:
            self._is_given = True
            return self._given
        if isinstance(self._kept, Exception) or self._kept is None:
            raise InputError("of the program") from self._kept
        return _copy_of(self._kept)

    def _copied(self) -> tuple[Any, list[Given]] | Exception:
        try:
            return _copy_of(self._given)
        except Exception as error:  # noqa: BLE001 - whatever somebody's objects raise that are copied
            return error


def _copy_of(given: tuple[Any, list[Given]]) -> tuple[Any, list[Given]]:
    """Return a copy; tensors that something has computed are leaves in it, which ask for a gradient as before."""
    kind: Any = torch.Tensor
    plain = kind.__deepcopy__

    def copied(tensor: torch.Tensor, memo: dict[int, Any]) -> Any:
        if tensor.is_leaf or id(tensor) in memo:
            return plain(tensor, memo)
        memo[id(tensor)] = tensor.detach().clone().requires_grad_(tensor.requires_grad)
        return memo[id(tensor)]

    kind.__deepcopy__ = copied
    try:
        return whole_copy(given)
    finally:
        kind.__deepcopy__ = plain


class Program:
    """The program of a plan; ``go_on`` runs in its place from the first call of the target on."""

    def __init__(
        self, plan: dict[str, Any], run: Run, hooks: Hooks, tests: list[str] | None, go_on: Callable[[Call], None]
    ) -> None:
        self._plan = plan
        self._asked: dict[str, Any] = plan["program"]
        self._run = run
        self._hooks = hooks
        self._tests = tests
        """What ``pytest`` is started with, where the program is one of tests."""
        self._go_on = go_on
        self.is_over = False
        """Whether it has come to the target, and does no more."""
        self._error: BaseException | None = None
        self.seconds = 0.0
        """How long it took to come to the target, imports not counted."""
        self._begun = 0.0, 0.0
        self._past: frozenset[int] = frozenset(self._asked.get("past") or ())
        """Lines by one of which the call is to come; any is taken where there are none."""
        self.skipped = 0
        """How many calls of the target were passed over."""

    @property
    def is_tried(self) -> bool:
        """Whether calls are tried in forks of this process, behind which no pool of threads is left."""
        return bool(self._past)

    @property
    def path(self) -> str:
        """The file of the program."""
        return self._asked["path"]

    @property
    def source(self) -> str:
        """Where the inputs come from, in words."""
        when = "called again" if self.skipped else "first called"
        return f"{self._asked['shown']}, where `{self._asked['name']}` was {when}"

    def namespace(self, absences: Absences) -> Namespace:
        """Return the names of the program, nothing of which has run. Raises CallFailed where it cannot be read."""
        give_source(self.path, self._asked["text"])
        self._run.lines.give_source(self.path, self._asked["text"])
        try:
            own = self.path == self._plan["path"]
            return Namespace(self._asked, absences, observe=own, blocks_of=None if own else self.path)
        except SyntaxError as error:
            raise self._failed(error) from error

    def run_until_called(self, namespace: Namespace) -> None:
        """Run the program. Raises what comes of the target, and CallFailed where the program does not call it.

        What the device cannot do is raised as it is: the program may do on another one.
        """
        known = len(self._run.faults)
        try:
            self._begun = time.monotonic(), self._run.imports.seconds
            self._hooks.wait(self._entered)
            with self._in_time():
                if self._tests is not None:
                    pytest_run.run(self._run, self._tests, self._asked.get("leading"))
                else:
                    namespace.execute_each()
        except Over:
            pass
        except (Exception, SystemExit, Overdue) as error:
            if not self.is_over:
                del self._run.faults[known:]
                if errors.outcome_of(error, self._run) == "unsupported":
                    raise  # another device may do
                raise (self._ended() if _is_the_end(error) else self._failed(error)) from error
        finally:
            self._hooks.install()
        if self._error is not None:
            raise self._error
        if not self.is_over:
            del self._run.faults[known:]
            raise self._ended()

    def _ended(self) -> CallFailed:
        return CallFailed(f"{self._asked['shown']} ends without calling the target")

    def _failed(self, error: BaseException) -> CallFailed:
        """Return the sentence about a program that did not come to the target."""
        place = self._run.lines.place_of_error(error)
        where = f" ({self._run.where(place.path, place.line)})" if place is not None else ""
        return CallFailed(f"{self._asked['shown']} does not reach the target: {self._reason(error)}{where}")

    def _reason(self, error: BaseException) -> str:
        if isinstance(error, Overdue):
            return f"not within {self._asked['seconds']:g} s"
        known = surroundings.missing_package(error) or command_line.misused(error) or surroundings.lacking(error)
        said = errors.first_line(error)
        return errors.shortened(known or (f"{type(error).__name__}: {said}" if said else type(error).__name__))

    def _entered(self, line: int) -> None:
        """Hear of a block of the target's file that is about to run."""
        self._hooks.blocks.add(line)
        frame: FrameType = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        code = frame.f_code
        if line != self._asked["line"] or code.co_name != self._asked["name"]:
            return
        if threading.current_thread() is not threading.main_thread():
            return  # the instruments hear of one thread only
        if transforms.is_within_one():
            return  # tensors there stand for others, whose values nobody can read
        if self.skipped < int(self._asked.get("skip") or 0) or (self._past and not self._comes_by(frame)):
            self.skipped += 1
            return
        self.is_over = True
        begun, imported = self._begun
        self.seconds = time.monotonic() - begun - (self._run.imports.seconds - imported)
        _quiet()
        self._run.faults.clear()
        self._run.cuts.begin()
        self._hooks.go_on(elsewhere=self._plan.get("compare") is True)
        try:
            self._go_on(Call(frame, self._plan, self.source, self.seconds))
        except BaseException as error:  # noqa: BLE001 - it is raised again behind the program
            self._error = error
        over = Over if self._tests is None else OverInTests
        self._hooks.end(over)
        raise over

    def _comes_by(self, frame: FrameType) -> bool:
        """Say whether a call that begins comes by one of the lines that are wanted: a fork of this process tries it."""
        if self.skipped >= _MOST_CALLS or not processes.CAN_FORK or self._run.device == "cuda":
            return False
        child = os.fork()
        if child:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        isolated.silence()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, _CALL_SECONDS)
        self._hooks.wait(lambda line: os._exit(0) if line in self._past else None)
        frame.f_trace = _end_with
        sys.settrace(_untraced)
        return False

    @contextmanager
    def _in_time(self) -> Generator[None]:
        """Raise Overdue in a block that computes too long, or waits; the time for imports is not counted.

        Nor is that in which a busy machine does something else.
        """
        if not hasattr(signal, "setitimer"):
            yield
            return
        seconds, imports = float(self._asked["seconds"]), self._run.imports
        begun, computed, before, stood = time.monotonic(), time.thread_time(), imports.seconds, deadline.queued()

        def ring(number: int, frame: Any) -> None:
            imported = imports.seconds - before
            passed, spent = time.monotonic() - begun - imported, time.thread_time() - computed - imported
            passed -= deadline.queued() - stood
            if passed >= WAITING * seconds or spent >= seconds:
                raise Overdue

        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
        try:
            yield
        finally:
            _quiet()


def _untraced(frame: FrameType, event: str, argument: Any) -> None:
    """Leave the frames that begin now alone."""


def _end_with(frame: FrameType, event: str, argument: Any) -> Any:
    """End the process when a frame is left."""
    if event == "return":
        os._exit(1)
    return _end_with


def _is_the_end(error: BaseException) -> bool:
    """Say whether a program has ended itself as one does that has done its work."""
    return isinstance(error, SystemExit) and not error.code


def _quiet() -> None:
    """Let nothing ring any more."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)
