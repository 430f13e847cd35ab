"""What the last runs have told, for panels: by their id, and target by target, the newest first."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from drygrad.lsp.dry_run_service import DryRunService, Seen

KEPT_OF_TARGET = 6
"""So many runs of a target can be compared; each keeps the text that ran."""
KEPT = 60
"""So many are kept in all."""

Target: TypeAlias = tuple[str, str | None]
"""What a document is known by, and the name of what was run; a script has none."""


@dataclass
class Entry:
    """One run of a target, with a report for each of its inputs; ``at`` is when it ended, in seconds since 1970."""

    run_id: str
    uri: str
    text: str
    reports: list[dict[str, Any]]
    at: float = field(default_factory=time.time)

    def as_json(self) -> dict[str, Any]:
        """Return the entry as panels get it."""
        return {"runId": self.run_id, "at": self.at, "text": self.text, "runs": self.reports}


class History:
    """The entries of all targets, each group with its newest last."""

    def __init__(self, service: DryRunService) -> None:
        self._service = service
        self._entries: OrderedDict[Target, list[Entry]] = OrderedDict()

    def add(self, run_id: str, uri: str, target: Target, text: str, seen: Sequence[Seen]) -> None:
        """Take note of a run of a document that has ended."""
        entry = Entry(run_id, uri, text, [self._service.run_json(one) for one in seen])
        known = self._entries.pop(target, [])
        self._entries[target] = [*known, entry][-KEPT_OF_TARGET:]
        while sum(map(len, self._entries.values())) > KEPT:
            oldest = next(iter(self._entries))
            self._entries[oldest].pop(0)
            if not self._entries[oldest]:
                del self._entries[oldest]

    def tell_again(self, run_id: str, target: Target, text: str, before: Sequence[Seen], now: Sequence[Seen]) -> None:
        """Let a run of a target say what is known of it by now."""
        told = {old.run_id: self._service.run_json(new) for old, new in zip(before, now, strict=False)}
        more = [self._service.run_json(new) for new in now[len(before) :]]
        for entry in self._entries.get(target, ()):
            if entry.run_id == run_id:
                entry.reports = [told.get(str(one.get("id")), one) for one in entry.reports] + more
                entry.text = text

    def reports(self, run_id: str) -> list[dict[str, Any]] | None:
        """Return what one run has told of all its targets; None where it is not known."""
        found = [entry for entries in self._entries.values() for entry in entries if entry.run_id == run_id]
        ordered = sorted(found, key=lambda entry: entry.at)
        return [report for entry in ordered for report in entry.reports] if found else None

    def of(self, target: Target) -> list[dict[str, Any]]:
        """Return the runs of a target, the newest first."""
        return [entry.as_json() for entry in reversed(self._entries.get(target, ()))]

    def last(self, target: Target) -> Entry | None:
        """Return the newest run of a target."""
        entries = self._entries.get(target)
        return entries[-1] if entries else None

    def newest(self) -> Target | None:
        """Return the target that was run last."""
        return next(reversed(self._entries), None)

    def targets(self) -> list[dict[str, Any]]:
        """Return all targets that have been run, the newest first, each with how its last run ended."""
        return [
            {"uri": entries[-1].uri, "qualname": name, "text": entries[-1].text, "outcome": _outcome(entries[-1])}
            for (_, name), entries in reversed(self._entries.items())
        ]

    def forget(self) -> None:
        """Drop all."""
        self._entries.clear()


def _outcome(entry: Entry) -> str:
    outcomes = [str(report.get("outcome")) for report in entry.reports]
    return next((outcome for outcome in outcomes if outcome != "passed"), "passed")
