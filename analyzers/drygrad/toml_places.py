"""Where a key stands in a TOML text; ``tomllib`` says only what it holds."""

from __future__ import annotations

import re
from collections.abc import Iterator

from drygrad.model import Position

_PART = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*\[\s*({_DOTTED})\s*\]")
_KEY = re.compile(rf"\s*({_DOTTED})\s*=")

Key = tuple[str, ...]


class Places:
    """The lines of a text's keys. What cannot be found is where its table, or else the text, begins."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._keys: dict[Key, Position] = {}
        for key, position in _keys(self._lines):
            self._keys.setdefault(key, position)

    def find(self, key: Key, item: str | None = None) -> Position:
        """Return the place of a key, or of a text inside its value."""
        known = key
        while known and known not in self._keys:
            known = known[:-1]
        start = self._keys.get(known, Position(1, 0))
        wanted = item or (key[len(known)] if len(known) < len(key) else None)
        return (wanted and self._search(wanted, start)) or start

    def _search(self, wanted: str, start: Position) -> Position | None:
        pattern = re.compile(rf"(?<![\w-]){re.escape(wanted)}(?![\w-])")
        column = start.column
        for number in range(start.line, len(self._lines) + 1):
            if match := pattern.search(self._lines[number - 1], column):
                return Position(number, match.start())
            column = 0
        return None


def _keys(lines: list[str]) -> Iterator[tuple[Key, Position]]:
    table: Key = ()
    in_text = False
    for number, line in enumerate(lines, 1):
        opens = (line.count('"""') + line.count("'''")) % 2 == 1
        if not in_text and (match := _HEADER.match(line)):
            table = _split(match[1])
            yield table, Position(number, match.start(1))
        elif not in_text and (match := _KEY.match(line)):
            parts = table + _split(match[1])
            for depth in range(len(table) + 1, len(parts) + 1):
                yield parts[:depth], Position(number, match.start(1))
        in_text ^= opens


def _split(dotted: str) -> Key:
    return tuple(part.strip().strip("\"'") for part in re.findall(_PART, dotted))
