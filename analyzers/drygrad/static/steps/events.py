"""The words for the steps of training: one step, and the steps of one body of code."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Literal, TypeAlias

from drygrad.static.context import FunctionNode, Loop

Kind: TypeAlias = Literal[
    "forward", "loss", "backward", "zero_grad", "step", "scheduler_step", "scale", "unscale", "update", "clip",
    "train", "eval", "load", "grad_edit", "hand_step", "autograd_grad", "unseen",
]  # fmt: skip
Body: TypeAlias = FunctionNode | ast.Module
Branch: TypeAlias = tuple[ast.stmt, str]
"""A branching statement and which of its branches: ``body``, ``orelse``, ``except 0``, ``case 1`` ..."""
Block: TypeAlias = ast.With | ast.AsyncWith


@dataclass(frozen=True, slots=True)
class Event:
    """One step of training.

    ``receiver`` is the text of what it is done to: the optimizer of a step (also of ``scaler.step(optimizer)``), the
    model of a forward, the parameters that are clipped; in a helper, as the caller names it; None where there is no
    plain name. ``scaler`` names the GradScaler that takes part. ``loops`` and ``blocks`` are innermost first,
    ``branches`` outermost first. ``via`` are the calls through which the step is reached, outermost first;
    ``anchor`` is its statement in the body itself. ``roles`` are what an unseen call was given.
    """

    kind: Kind
    node: ast.Call | ast.stmt
    statement: ast.stmt
    anchor: ast.stmt
    receiver: str | None = None
    scaler: str | None = None
    loops: tuple[Loop, ...] = ()
    branches: tuple[Branch, ...] = ()
    blocks: tuple[Block, ...] = ()
    via: tuple[ast.Call, ...] = ()
    roles: frozenset[str] = frozenset()
    closure: bool = False
    index: int = 0

    def in_loop(self, loop: Loop) -> bool:
        """Say whether the step is taken within a loop, at any depth."""
        return loop in self.loops

    def excludes(self, other: Event) -> bool:
        """Say whether the two stand in different branches of one statement."""
        theirs = dict(other.branches)
        return any(theirs.get(statement, branch) != branch for statement, branch in self.branches)

    def surely_with(self, other: Event) -> bool:
        """Say whether the step is taken whenever the other one is: it stands under no further branch."""
        return all(branch in other.branches for branch in self.branches)

    def branches_in(self, loop: Loop) -> tuple[Branch, ...]:
        """Return the branches around the step that stand within a loop."""
        return tuple(b for b in self.branches if loop.lineno <= b[0].lineno <= (loop.end_lineno or 0))


@dataclass(frozen=True, slots=True)
class Training:
    """The steps of one body; ``framework`` names what else may take steps behind the scenes."""

    node: Body
    events: tuple[Event, ...]
    framework: str | None = None

    def of(self, *kinds: Kind) -> list[Event]:
        """Return the steps of some kinds."""
        return [event for event in self.events if event.kind in kinds]

    def within(self, loop: Loop, *kinds: Kind) -> list[Event]:
        """Return the steps of some kinds taken in a loop, at any depth."""
        return [event for event in self.events if event.kind in kinds and event.in_loop(loop)]

    def between(self, first: Event, last: Event, *kinds: Kind) -> list[Event]:
        """Return the steps of some kinds that stand between two others."""
        return [e for e in self.events if e.kind in kinds and first.index < e.index < last.index]

    @property
    def loops(self) -> list[Loop]:
        """The loops around any step, each once, inner ones before the outer ones."""
        found = dict.fromkeys(loop for event in self.events for loop in event.loops)
        depth = {loop: max(e.loops[::-1].index(loop) for e in self.events if loop in e.loops) for loop in found}
        return sorted(found, key=lambda loop: -depth[loop])

    def hides(self, loop: Loop | None, *roles: str) -> bool:
        """Say whether code that cannot be seen may take a step: it is given such an object, or its name says so."""
        unseen = self.within(loop, "unseen") if loop is not None else self.of("unseen")
        return any(not roles or event.roles & {*roles, "name"} for event in unseen)
