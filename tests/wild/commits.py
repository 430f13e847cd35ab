"""The list of fixes: what was wrong, where it stood, which commit put it right."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

LISTED = Path(__file__).with_name("commits.json")

FITTING = {
    "device": ("DG2", "DG921"),
    "nan": ("DG4", "DG922"),
    "dtype": ("DG2", "DG3", "DG4", "DG907", "DG921", "DG941"),
    "shape": ("DG3", "DG907", "DG923"),
    "inplace": ("DG1",),
    "memory": ("DG1", "DG5", "DG7", "DG92"),
    "loop": ("DG7", "DG1", "DG92"),
    "other": ("DG1", "DG2", "DG3", "DG4", "DG5", "DG6", "DG7", "DG8", "DG907", "DG92", "DG941"),
}
"""How the codes of rules that may name a fault begin, by the family of the fault."""


@dataclass(frozen=True)
class Fix:
    """A commit that mends one fault; ``places`` are all lines of the parent's file at which a finding is right."""

    number: int
    repo: str
    commit: str
    parent: str
    path: str
    places: tuple[int, ...]
    function: str
    family: str
    fault: str
    split: str

    @property
    def name(self) -> str:
        return f"{self.repo}@{self.commit[:8]} {self.path}::{self.function}"

    def fits(self, code: str) -> bool:
        """Say whether a rule's code is of the fault's family."""
        return code.startswith(FITTING[self.family])

    def is_near(self, line: int) -> bool:
        """Say whether a line is at most two lines from where the fault stands."""
        return any(abs(line - place) <= 2 for place in self.places)


def listed(split: str | None = None) -> list[Fix]:
    """Return the fixes of a half of the list, or all."""
    entries = json.loads(LISTED.read_text(encoding="utf-8"))
    return [
        Fix(
            number,
            entry["repo"],
            entry["commit"],
            entry["parent"],
            entry["path"],
            tuple(sorted({entry["line"], *entry["lines"]})),
            entry["function"],
            entry["family"],
            entry["fault"],
            entry["split"],
        )
        for number, entry in enumerate(entries)
        if split in (None, entry["split"])
    ]
