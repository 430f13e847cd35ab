"""The output for people: every finding with its line of source, marked."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from drygrad.cli.report import Item, Report
from drygrad.cli.terminal import one_line, painted, steers
from drygrad.model import Fix, Related, Severity, Span

from . import summary

TAB = 4
WIDEST = 120
"""Longer lines are cut around the mark."""

_COLOURS: dict[Severity, str] = {"error": "1;31", "warning": "1;33", "info": "1;36", "hint": "1;34"}
_EDGE = "34"

NO_INPUTS = "DG901"
"""What it offers is no repair, but a comment to be completed by hand."""


def render(report: Report, *, coloured: bool) -> str:
    """Return the findings, one block each, what was run, and the summary."""
    blocks = [
        "\n".join(Block(item, coloured=coloured, tried=bool(report.runs)).lines()) + "\n" for item in report.items
    ]
    if report.runs:
        from . import runs  # noqa: PLC0415 - a check has none

        blocks += runs.blocks(report.runs, coloured=coloured)
        blocks += [runs.table(report)] if sum(not result.mentioned for result in report.results) > 1 else []
    return "\n".join([*blocks, summary.render(report, coloured=coloured)])


class Block:
    """One finding as lines of a terminal."""

    def __init__(self, item: Item, *, coloured: bool, tried: bool = False) -> None:
        self._item = item
        self._tried = tried
        self._coloured = coloured
        shown = [item.finding.span, *(related.span for related, _ in self._related_lines if related.path is None)]
        self._gutter = max(len(str(span.start.line)) for span in shown)

    def lines(self) -> Iterator[str]:
        """Yield the lines."""
        finding = self._item.finding
        style = _COLOURS[finding.severity]
        place = self._paint(_place(self._item.path, self._item.cell, finding.span), "1")
        label = self._paint(f"{finding.severity}[{finding.code}]", style)
        seen = ", seen in a run" if finding.run else ""
        yield f"{place}: {label}: {self._paint(one_line(finding.message), '1')} ({finding.name}{seen})"
        yield from self._excerpt(self._item.excerpt, finding.span, "^", style)
        for related, line in self._related_lines:
            yield from self._related(related, line)
        yield from (self._note(line) for line in (finding.detail or "").splitlines())
        yield from (self._note(self._fix(fix)) for fix in finding.fixes)

    def _fix(self, fix: Fix) -> str:
        if self._item.finding.code == NO_INPUTS:
            return f"fill in above it: {fix.edits[0].new_text.strip()}"
        return _fix(fix, tried=self._tried)

    @property
    def _related_lines(self) -> list[tuple[Related, str | None]]:
        return [*zip(self._item.finding.related, self._item.beside, strict=True)]

    def _related(self, related: Related, line: str | None) -> Iterator[str]:
        if line is None:
            yield self._note(f"{_place(related.path or self._item.path, None, related.span)}: {related.message}")
            return
        yield self._note(f"{related.message}:")
        yield from self._excerpt(line, related.span, "-", _EDGE)

    def _excerpt(self, line: str, span: Span, sign: str, style: str) -> Iterator[str]:
        if not line.strip():
            return
        end = span.end.column if span.end.line == span.start.line else len(line.rstrip())
        shown, offset, width = mark(line, span.start.column, end)
        bar = self._paint("|", _EDGE)
        yield f"{self._paint(str(span.start.line).rjust(self._gutter), _EDGE)} {bar} {shown}"
        yield f"{' ' * self._gutter} {bar} {' ' * offset}{self._paint(sign * width, style)}"

    def _note(self, text: str) -> str:
        return f"{' ' * self._gutter} {self._paint('=', _EDGE)} {text}"

    def _paint(self, text: str, style: str) -> str:
        return painted(text, style) if self._coloured else text


def _place(path: str, cell: int | None, span: Span) -> str:
    name = one_line(path)
    where = f"{name}:cell {cell}" if cell else name
    return f"{where}:{span.start.line}:{span.start.column + 1}"


def _fix(fix: Fix, *, tried: bool) -> str:
    """Return a fix in words; after a run only what was tried and holds can be applied by an option."""
    option = "--fix" if fix.safety == "safe" else "--unsafe-fixes"
    verdict = {True: "verified", False: "did not hold", None: "unproven"}[fix.verified]
    notes = [
        *([verdict] if tried or fix.verified is not None else []),
        fix.safety,
        *([option] if fix.verified or not tried else []),
    ]
    return f"fix ({', '.join(notes)}): {fix.title}"


def mark(line: str, start: int, end: int) -> tuple[str, int, int]:
    """Return a line as a terminal shows it, and the offset and width in cells of the characters from start to end."""
    pieces = _cells(line)
    before, inside = pieces[:start], pieces[start : max(end, start + 1)]
    offset, width = (sum(cells for _, cells in part) for part in (before, inside))
    total = sum(cells for _, cells in pieces)
    if total <= WIDEST:
        return "".join(text for text, _ in pieces).rstrip(), offset, max(width, 1)
    return _cut(pieces, offset, max(width, 1))


def _cut(pieces: list[tuple[str, int]], offset: int, width: int) -> tuple[str, int, int]:
    """Cut a long line to a window around the mark."""
    begin = max(0, offset - WIDEST // 3)
    shown: list[str] = []
    position = first = used = 0
    for text, cells in pieces:
        if position >= begin and used + cells <= WIDEST:
            first = first if shown else position
            shown.append(text)
            used += cells
        position += cells
    lead = "…" if first > 0 else ""
    tail = "…" if first + used < position else ""
    return lead + "".join(shown) + tail, offset - first + len(lead), min(width, used - (offset - first))


def _cells(line: str) -> list[tuple[str, int]]:
    """Return what a terminal shows for each character, and how many cells that takes."""
    pieces: list[tuple[str, int]] = []
    column = 0
    for character in line:
        if character == "\t":
            cells = TAB - column % TAB
            pieces.append((" " * cells, cells))
        else:
            pieces.append(_cell(character))
        column += pieces[-1][1]
    return pieces


def _cell(character: str) -> tuple[str, int]:
    if " " <= character <= "~":
        return character, 1
    kind = unicodedata.category(character)
    if steers(character):
        return "\N{MIDDLE DOT}", 1
    if kind in ("Mn", "Me", "Cf"):
        return character, 0
    if kind == "Zs":
        return " ", 1
    if kind[0] in "CZ":
        return "\N{MIDDLE DOT}", 1
    return character, 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
