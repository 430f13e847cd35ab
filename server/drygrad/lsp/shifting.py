"""Findings of an older text, moved to where their statements stand now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from drygrad.lsp.lines import equal_blocks
from drygrad.model import Finding, Span
from drygrad.static.source import Source


def shifted(findings: Iterable[Finding], old: Source, new: Source) -> list[Finding]:
    """Return the findings whose lines are unchanged, at their new lines.

    Fixes are left out: they were made for a text that Python could read, which the new one is not.
    """
    kept: list[Finding] = []
    moves = _moves(_texts(old), _texts(new))
    for finding in findings:
        shift = _shift(finding.span, moves)
        if shift is not None:
            kept.append(_moved(finding, shift, moves))
    return kept


def _texts(source: Source) -> list[str]:
    return [line.rstrip("\r\n") for line in source.lines]


def _moved(finding: Finding, shift: int, moves: dict[int, int]) -> Finding:
    related = tuple(
        r if r.path else replace(r, span=r.span.shifted(r_shift))
        for r in finding.related
        if (r_shift := 0 if r.path else _shift(r.span, moves)) is not None
    )
    return replace(finding, span=finding.span.shifted(shift), related=related, fixes=())


def _shift(span: Span, moves: dict[int, int]) -> int | None:
    """Return by how many lines a span has moved; None if a line of it is gone or they moved apart."""
    shifts = {moves.get(line) for line in range(span.start.line, span.end.line + 1)}
    return shifts.pop() if len(shifts) == 1 else None


def _moves(old: Sequence[str], new: Sequence[str]) -> dict[int, int]:
    """Return by how many lines each unchanged line (from 1) has moved."""
    return {a + i + 1: b - a for a, b, size in equal_blocks(old, new) for i in range(size)}
