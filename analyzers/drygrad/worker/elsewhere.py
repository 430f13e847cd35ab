"""Inputs from a call in another file: what comes before it is executed in that file's name, the arguments with it."""

from __future__ import annotations

from typing import Any, Callable, TypeVar

from drygrad.worker import errors, inputs
from drygrad.worker.absent import Absences
from drygrad.worker.namespace import Namespace
from drygrad.worker.run import Run

T = TypeVar("T")


class CallFailed(Exception):
    """The call that was to give the inputs cannot be made, for a reason that is not in the target."""


class Elsewhere:
    """The other file of a plan."""

    def __init__(self, plan: dict[str, Any], run: Run, absences: Absences) -> None:
        self._own_path: str = plan["path"]
        self._plan: dict[str, Any] = plan["elsewhere"]
        self._run = run
        self._absences = absences

    def namespace(self) -> Namespace:
        """Return the names of the other file when the statements before the call have run."""
        namespace = Namespace(self._plan, self._absences, observe=False)
        namespace.import_parent()
        namespace.execute(self._plan["setup"])
        return namespace

    def held(self, work: Callable[[], T]) -> T:
        """Return what is made for the call. Raises CallFailed, but for an error in the target's own file.

        What is wanting here, such as a download or a package, is no error of that file's either: other inputs may do
        without.
        """
        try:
            return work()
        except (Exception, SystemExit) as error:
            cause = error.__cause__ if isinstance(error, inputs.InputError) and error.__cause__ else error
            place = self._run.lines.place_of_error(cause)
            is_own = place is not None and place.path == self._own_path
            if is_own and errors.outcome_of(cause, self._run) == "failed":
                raise
            said = errors.first_line(cause)
            why = f"{type(cause).__name__}: {said}" if said else type(cause).__name__
            raise CallFailed(f"the call in {self._plan['shown']} cannot be built: {errors.shortened(why)}") from error
