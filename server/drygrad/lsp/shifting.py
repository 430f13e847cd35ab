"""Findings of an older text, moved to where their statements stand now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from drygrad.lsp.lines import equal_blocks
from drygrad.model import Finding, Fix, Related, Span
from drygrad.static.source import Source


class Moves:
    """By how many lines each unchanged line of a text has moved."""

    def __init__(self, old: Source, new: Source) -> None:
        blocks = equal_blocks(_texts(old), _texts(new))
        self._shifts = {a + i + 1: b - a for a, b, size in blocks for i in range(size)}

    def line(self, line: int) -> int | None:
        """Return where a line (from 1) stands now; None if it is gone."""
        shift = self._shifts.get(line)
        return None if shift is None else line + shift

    def shift(self, span: Span) -> int | None:
        """Return by how many lines a span has moved; None if a line of it is gone or they moved apart."""
        shifts = {self._shifts.get(line) for line in range(span.start.line, span.end.line + 1)}
        return shifts.pop() if len(shifts) == 1 else None

    def finding(self, finding: Finding) -> Finding | None:
        """Return a finding where it stands now, with those of its places and fixes that are still there."""
        shift = self.shift(finding.span)
        if shift is None:
            return None
        related = tuple(place for old in finding.related if (place := self._related(old)) is not None)
        fixes = tuple(fix for old in finding.fixes if (fix := self._fix(old)) is not None)
        return replace(finding, span=finding.span.shifted(shift), related=related, fixes=fixes)

    def _related(self, related: Related) -> Related | None:
        shift = 0 if related.path else self.shift(related.span)
        return None if shift is None else replace(related, span=related.span.shifted(shift))

    def _fix(self, fix: Fix) -> Fix | None:
        shifts = [0 if edit.path else self.shift(edit.span) for edit in fix.edits]
        known = [shift for shift in shifts if shift is not None]
        if len(known) < len(shifts):
            return None
        moved = (replace(e, span=e.span.shifted(shift)) for e, shift in zip(fix.edits, known, strict=True))
        return replace(fix, edits=tuple(moved))


def shifted(findings: Iterable[Finding], old: Source, new: Source) -> list[Finding]:
    """Return the findings whose lines are unchanged, at their new lines.

    Fixes are left out: they were made for a text that Python could read, which the new one is not.
    """
    moves = Moves(old, new)
    return [replace(moved, fixes=()) for f in findings if (moved := moves.finding(f)) is not None]


def _texts(source: Source) -> list[str]:
    return [line.rstrip("\r\n") for line in source.lines]
