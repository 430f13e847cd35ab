"""Ranks agree: several ranks of a program call the same collectives. They are compared before anything else has run."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from drygrad.worker.experiments.relation import NotTried, Relation

if TYPE_CHECKING:
    from drygrad.worker.experiments.bench import Inputs


class RanksAgree(Relation):
    """Stands for the comparison that ``ranks`` has made, or has not: here it is too late for one."""

    code: ClassVar[str] = "DG940"
    name: ClassVar[str] = "ranks agree"
    rank: ClassVar[int] = 0

    def glance(self, given: Inputs) -> None:
        """Refuse: who begins no process group is no rank."""
        raise NotTried("the program creates no process group on its own inputs")
