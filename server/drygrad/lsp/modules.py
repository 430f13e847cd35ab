"""What is checked together: a text document, or the cells of a notebook as one module."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from drygrad.magics import as_python
from drygrad.model import Edit, Finding, Fix, Position, Related, Span
from drygrad.notebook import in_cells
from drygrad.static.source import Source


@dataclass(frozen=True)
class Part:
    """One version of a text document, as the client has it; ``cell`` is its number (from 1) in a notebook."""

    uri: str
    version: int | None
    source: Source
    cell: int = 1


@dataclass(frozen=True)
class Module:
    """One moment of what is checked together.

    ``first_lines`` says how many lines of the module come before each part; ``left_out`` names the cells that Python
    cannot parse, which stand in the module as blank lines.
    """

    parts: tuple[Part, ...]
    source: Source
    first_lines: tuple[int, ...] = (0,)
    left_out: frozenset[str] = frozenset()

    @classmethod
    def of_document(cls, part: Part) -> Module:
        """Make the module of a text document: the text itself."""
        return cls((part,), part.source)

    @classmethod
    def of_cells(cls, parts: Sequence[Part]) -> Module:
        """Make the module of a notebook: its cells, one below the other."""
        texts: list[str] = []
        first_lines: list[int] = []
        left_out: set[str] = set()
        line = 0
        for number, part in enumerate(parts):
            texts.append(_separator(number))
            line += 1
            python = as_python(part.source.text)
            if python is None:
                left_out.add(part.uri)
            count = max(len(part.source.lines), 1)
            texts.append(_with_lines(python or "", count))
            first_lines.append(line)
            line += count
        return cls(tuple(parts), Source("".join(texts)), tuple(first_lines), frozenset(left_out))

    def pieces(self, text: str) -> list[str] | None:
        """Take a changed text of the module apart into its parts; None if their borders are gone."""
        if not self.is_notebook:
            return [text]
        pieces: list[str] = []
        for number in reversed(range(len(self.parts))):
            text, border, piece = text.rpartition(_separator(number))
            if not border:
                return None
            pieces.insert(0, piece)
        return pieces

    @cached_property
    def by_uri(self) -> dict[str, Part]:
        """The parts by their documents."""
        return {part.uri: part for part in self.parts}

    @property
    def is_notebook(self) -> bool:
        """Whether the parts are cells: their text may differ from the module's."""
        return self.parts != () and self.source is not self.parts[0].source

    def lines_of(self, uri: str) -> range:
        """Return the module's numbers of the lines of a part, the one behind its end included."""
        index = self.parts.index(self.by_uri[uri])
        first = self.first_lines[index] + 1
        return range(first, first + max(len(self.parts[index].source.lines), 1) + 1)

    def said(self, sentence: str, home: Part | None = None) -> str:
        """Return a sentence about lines of the module as one about lines of cells; of ``home``, of its lines."""
        if not self.is_notebook:
            return sentence

        def place(line: int) -> tuple[int, int]:
            part, span = self.locate(Span.of(line, 0, line, 0))
            return part.cell, span.start.line

        return in_cells(sentence, place, home.cell if home else None)

    def locate(self, span: Span) -> tuple[Part, Span]:
        """Return the part that a span of the module begins in, and the span counted from there."""
        index = max(bisect_right(self.first_lines, span.start.line - 1) - 1, 0)
        part, shift = self.parts[index], -self.first_lines[index]
        local = span.shifted(shift)
        last = max(len(part.source.lines), 1)
        if self.is_notebook and local.end.line > last:
            local = Span(local.start, max(local.start, Position(last, len(part.source.line_text(last)))))
        return part, local

    def localised(self, findings: Sequence[Finding]) -> dict[str, list[Finding]]:
        """Return each part's findings, counted from the part's own beginning; other parts are named by their URI."""
        found: dict[str, list[Finding]] = {part.uri: [] for part in self.parts}
        if not self.is_notebook:
            return {uri: list(findings) for uri in found}
        for finding in findings:
            part, span = self.locate(finding.span)
            found[part.uri].append(
                replace(
                    finding,
                    message=self.said(finding.message, part),
                    span=span,
                    related=tuple(self._related(r, part) for r in finding.related),
                    fixes=tuple(f for fix in finding.fixes if (f := self._fix(fix, part)) is not None),
                )
            )
        return found

    def _related(self, related: Related, home: Part) -> Related:
        if related.path is not None:
            return related
        part, span = self.locate(related.span)
        message = self.said(related.message, part)
        return replace(related, message=message, span=span, path=None if part is home else part.uri)

    def _fix(self, fix: Fix, home: Part) -> Fix | None:
        """Return the fix in the parts' own lines; None if an edit reaches over a cell's end."""
        edits: list[Edit] = []
        for edit in fix.edits:
            if edit.path is not None:
                edits.append(edit)
                continue
            part, span = self.locate(edit.span)
            shift = self.first_lines[self.parts.index(part)]
            if span.shifted(shift) != edit.span:
                return None
            edits.append(replace(edit, span=span, path=None if part is home else part.uri))
        return replace(fix, edits=tuple(edits))


def _separator(number: int) -> str:
    return f"# drygrad: cell {number}\n"


def _with_lines(text: str, count: int) -> str:
    """Return a text ended and filled up with blank lines to the count that its cell has."""
    ended = text if not text or text.endswith(("\n", "\r")) else text + "\n"
    return ended + "\n" * (count - len(Source(ended).lines))
