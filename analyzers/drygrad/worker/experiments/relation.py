"""The words of experiments: a relation, what comes of trying it, and why it may not be tried."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from drygrad.worker.run import Fault

if TYPE_CHECKING:
    from drygrad.worker.experiments.bench import Bench, Inputs


class NotTried(Exception):
    """The relation is not owed here, or cannot be tried; the message says why, for the user to read."""


class Relation:
    """What right programs keep between two runs of a target.

    ``examine`` is called in a process of its own, forked when the statements before the call have run: whatever it
    changes ends with it. It yields the faults behind a broken relation, and none where the relation held.
    """

    code: ClassVar[str]
    """The code of its page, and of a fault that no other rule recognizes."""
    name: ClassVar[str]
    """What must hold, in a few words: ``devices are equal``."""
    rank: ClassVar[int] = 50
    """The lower, the earlier it is tried."""

    def glance(self, given: Inputs) -> None:
        """Raise NotTried where a look at the inputs tells that it is not owed: then no process is forked for it.

        Nothing is changed or called here, and ``examine`` relies on no glance before it.
        """

    def examine(self, bench: Bench) -> Iterable[Fault]:
        """Try the relation. Raises NotTried."""
        raise NotImplementedError
