"""One request for runs, while it is carried out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from drygrad.lsp.dry_run_service import Target
from drygrad.static.source import Source

if TYPE_CHECKING:
    from drygrad.lsp.checking import Checker

QUEUED = "queued"
"""What a target does whose turn has not come."""

Choice: TypeAlias = Callable[[Source], Sequence[Target]]
"""Chooses the targets of a run from the text; called in the thread that analyses."""


@dataclass(frozen=True)
class AskedForecast:
    """That a forecast is asked for, not a run: for a GPU (None: as it is set), with changes that could save memory."""

    gpu: str | None = None
    what_if: bool = False


@dataclass(frozen=True)
class Conditions:
    """What is asked of one request only: a device, a launch, the arguments of the call; None: as it is set."""

    device: str | None = None
    launch: str | None = None
    inputs: str | None = None
    forecast: AskedForecast | None = None


AS_SET = Conditions()


@dataclass(eq=False)
class Running:
    """One request for runs. ``label`` is what it is about; an answer to what was ``asked`` for is never silent.

    ``edited`` and ``saved`` are other files that changed since the present target was begun, in the editor or on disk.
    """

    run_id: str
    checker: Checker
    label: str
    choose: Choice
    how: Conditions = AS_SET
    asked: bool = True
    phases: dict[str | None, str] = field(default_factory=dict[str | None, str])
    """What is being done of each target that has not ended."""
    names: set[str | None] = field(default_factory=set[str | None])
    edited: set[Path] = field(default_factory=set[Path])
    saved: set[Path] = field(default_factory=set[Path])
    task: asyncio.Task[None] | None = None
    last: dict[str, Any] | None = None

    @property
    def title(self) -> str:
        """What its progress is called."""
        return f"{'Forecast' if self.how.forecast else 'Dry run'}: {self.label}"

    def cancel(self) -> None:
        """End it."""
        if self.task is not None:
            self.task.cancel()


def replaces(new: Running, old: Running) -> bool:
    """Say whether a run makes an older one pointless: it is of the same, or at a later save."""
    same = (new.label, new.asked) == (old.label, old.asked) and bool(new.how.forecast) == bool(old.how.forecast)
    return new.checker is old.checker and same
