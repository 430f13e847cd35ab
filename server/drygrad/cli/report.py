"""What a check of files brought: the words that the checking and the formats share."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drygrad.model import SEVERITIES, Finding, Safety, Severity
from drygrad.notebook import Notebook, in_cells

if TYPE_CHECKING:
    from drygrad.dryrun.merge import Record
    from drygrad.dryrun.plan import Missing


@dataclass(frozen=True)
class Item:
    """A finding in its file. In a notebook, ``cell`` (from 1) is set and every position counts within the cell.

    ``excerpt`` is the line that the finding begins in, ``beside`` those of its related places: None of another file's.
    """

    path: str
    finding: Finding
    cell: int | None = None
    excerpt: str = ""
    beside: tuple[str | None, ...] = ()


@dataclass(frozen=True)
class FileResult:
    """One file, checked: what was found, or, where it ``failed``, the problem that kept it from being checked.

    ``known`` counts findings that the baseline has; ``fixed`` the fixes that were applied; ``text`` is what fixing made
    of the file where it is not written; ``keys`` are what a baseline knows the findings by. One that was not
    asked for is only ``mentioned``: runs of others have found something in it.
    """

    path: str
    items: tuple[Item, ...] = ()
    problems: tuple[str, ...] = ()
    failed: bool = False
    known: int = 0
    fixed: int = 0
    diff: str = ""
    text: bytes | None = None
    keys: tuple[tuple[str, str], ...] = ()
    mentioned: bool = False


@dataclass(frozen=True)
class Ran:
    """One run, or why there was none; ``refuted`` are the static findings that it disproved.

    ``path`` is the file as it was named on the command line, ``lines`` the text that ran, ``cells`` whose text that is.
    """

    path: str
    outcome: Record | Missing
    refuted: tuple[Finding, ...] = ()
    lines: tuple[str, ...] = ()
    cells: Notebook | None = None

    def said(self, sentence: str) -> str:
        """Return a sentence about lines of the text as one about the notebook's cells, if it is one."""
        return in_cells(sentence, self.cells.cell_number) if self.cells else sentence

    def place(self, line: int) -> str:
        """Return the number of a line, in a notebook with its cell's before it."""
        return "{}:{}".format(*self.cells.cell_number(line)) if self.cells else str(line)


@dataclass(frozen=True)
class Report:
    """All files of one check, in the order of the output; ``written`` unless the fixes are only shown."""

    results: tuple[FileResult, ...]
    written: bool = True
    runs: tuple[Ran, ...] = ()

    @property
    def items(self) -> list[Item]:
        """Every finding, file by file."""
        return [item for result in self.results for item in result.items]

    @property
    def failed(self) -> int:
        """How many files could not be checked."""
        return sum(result.failed for result in self.results)

    @property
    def fixed(self) -> int:
        """How many fixes were applied."""
        return sum(result.fixed for result in self.results)

    @property
    def known(self) -> int:
        """How many findings the baseline left out."""
        return sum(result.known for result in self.results)

    def counts(self) -> dict[Severity, int]:
        """Count the findings by severity, the gravest first."""
        counted = Counter(item.finding.severity for item in self.items)
        return {severity: counted[severity] for severity in SEVERITIES if counted[severity]}

    def fixable(self, safety: Safety) -> int:
        """Count the findings whose best fix has this safety; after runs, of those fixes that were tried and hold."""
        return sum(best_safety(item.finding, verified=bool(self.runs)) == safety for item in self.items)

    def reaches(self, severity: Severity) -> bool:
        """Say whether a finding is at least so grave."""
        grave = SEVERITIES[: SEVERITIES.index(severity) + 1]
        return any(item.finding.severity in grave for item in self.items)


def best_safety(finding: Finding, *, verified: bool = False) -> Safety | None:
    """Return the safety of a finding's safest (verified) fix; None if it has none."""
    kinds = {fix.safety for fix in finding.fixes if fix.verified or not verified}
    return "safe" if "safe" in kinds else "unsafe" if kinds else None
