"""Between characters (code points) and the units in which a client counts columns."""

from __future__ import annotations

from collections.abc import Callable

from lsprotocol import types as lsp

from drygrad.model import Position, Span
from drygrad.static.source import Source

_LAST_OF_TWO_BYTES = "\u07ff"
_LAST_OF_BASIC_PLANE = "\uffff"


def _utf8_width(character: str) -> int:
    if character <= "\x7f":
        return 1
    if character <= _LAST_OF_TWO_BYTES:
        return 2
    return 3 if character <= _LAST_OF_BASIC_PLANE else 4


def _utf16_width(character: str) -> int:
    return 1 if character <= _LAST_OF_BASIC_PLANE else 2


_WIDTHS: dict[str, Callable[[str], int]] = {"utf-8": _utf8_width, "utf-16": _utf16_width}


class Units:
    """Converts positions of a text to a client's units and back."""

    def __init__(self, encoding: str) -> None:
        self._width = _WIDTHS.get(encoding)  # utf-32 counts characters, as we do

    def count(self, text: str) -> int:
        """Return the length of a text in client units."""
        if self._width is None or text.isascii():
            return len(text)
        return sum(map(self._width, text))

    def characters(self, line: str, units: int) -> int:
        """Return how many characters of a line lie before a client's column; at most all of them."""
        if self._width is None or line.isascii():
            return min(units, len(line))
        passed = 0
        for index, character in enumerate(line):
            if passed >= units:
                return index
            passed += self._width(character)
        return len(line)

    def to_position(self, source: Source, position: lsp.Position) -> Position:
        """Return our position for a client's; beyond the end of a line or of the text means that end."""
        behind_last = max(len(source.lines), 1) + 1
        line = min(max(position.line, 0) + 1, behind_last)
        return Position(line, self.characters(source.line_text(line), max(position.character, 0)))

    def to_offset(self, source: Source, position: lsp.Position) -> int:
        """Return the index in the text of a client's position."""
        return source.offset(self.to_position(source, position))

    def from_position(self, source: Source, position: Position) -> lsp.Position:
        """Return the client's position for ours; places that the text does not have move to its end."""
        line, column = position
        last = len(source.lines)
        if line > last > 0:
            line, column = _end(source)
        return lsp.Position(line - 1, self.count(source.line_text(line)[:column]))

    def from_span(self, source: Source, span: Span) -> lsp.Range:
        """Return the client's range for our span."""
        return lsp.Range(self.from_position(source, span.start), self.from_position(source, span.end))


def _end(source: Source) -> Position:
    """Return where a text ends: on the line after its last one, if that is ended."""
    last = len(source.lines)
    ended = source.lines[-1].endswith(("\n", "\r"))
    return Position(last + 1, 0) if ended else Position(last, len(source.line_text(last)))
