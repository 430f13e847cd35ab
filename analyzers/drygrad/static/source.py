"""A Python text and its places: decoding, lines, and the way from ``ast`` offsets to characters."""

from __future__ import annotations

import ast
import io
import re
import threading
import tokenize
from bisect import bisect_right
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from drygrad.files import read_file
from drygrad.model import Position, Span
from drygrad.parsing import parsed

Located: TypeAlias = ast.expr | ast.stmt | ast.excepthandler | ast.arg | ast.keyword | ast.alias
"""The nodes that have a place in the text."""

_LINE_BREAK = re.compile(r"\r\n|\n|\r")

MAX_CHARACTERS = 2_000_000
"""Larger texts are generated data; checking them would only make the editor wait."""


class SourceError(Exception):
    """The text cannot be analysed; ``position`` is where the reader should look."""

    def __init__(self, message: str, position: Position | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.position = position or Position(1, 0)


class SourceSyntaxError(SourceError):
    """The text is not valid Python."""


class Source:
    """One version of a text; its lines end where Python's own tokenizer sees them end: at CRLF, LF or CR only."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tree: ast.Module | None = None
        self._parsing = threading.Lock()

    @cached_property
    def lines(self) -> list[str]:
        """The lines with their line ends."""
        if "\r" not in self.text:
            *ended, rest = self.text.split("\n")
            return [f"{line}\n" for line in ended] + ([rest] if rest else [])
        pieces: list[str] = []
        start = 0
        for match in _LINE_BREAK.finditer(self.text):
            pieces.append(self.text[start : match.end()])
            start = match.end()
        if start < len(self.text):
            pieces.append(self.text[start:])
        return pieces

    @cached_property
    def line_offsets(self) -> list[int]:
        """The index of each line's first character, and one for the end of the text."""
        offsets = [0]
        for line in self.lines:
            offsets.append(offsets[-1] + len(line))
        return offsets

    @cached_property
    def newline(self) -> str:
        """The line end that the text uses (the first one found)."""
        match = _LINE_BREAK.search(self.text)
        return match.group() if match else "\n"

    def column(self, line: int, byte_column: int) -> int:
        """Return the character column of a UTF-8 byte column (``ast`` counts bytes)."""
        if byte_column == 0 or line > len(self.lines):
            return byte_column
        text = self.lines[line - 1]
        if text.isascii():
            return byte_column
        return len(text.encode("utf-8", "surrogatepass")[:byte_column].decode("utf-8", "replace"))

    def start(self, node: Located) -> Position:
        """Return the position of a node's first character."""
        return Position(node.lineno, self.column(node.lineno, node.col_offset))

    def end(self, node: Located) -> Position:
        """Return the position after a node's last character."""
        line, column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return Position(line, self.column(line, column))

    def span(self, node: Located, last: Located | None = None) -> Span:
        """Return the span of a node, or from one node to the end of another."""
        return Span(self.start(node), self.end(last or node))

    def offset(self, position: Position) -> int:
        """Return the index of a position in the text, clamped to its line and to the text."""
        if position.line > len(self.lines):
            return len(self.text)
        start, end = self.line_offsets[position.line - 1 : position.line + 1]
        return min(start + position.column, end)

    def position(self, offset: int) -> Position:
        """Return the position of an index of the text."""
        line = bisect_right(self.line_offsets, offset, hi=len(self.lines) or 1)
        return Position(line, offset - self.line_offsets[line - 1])

    def slice(self, span: Span) -> str:
        """Return the text of a span."""
        return self.text[self.offset(span.start) : self.offset(span.end)]

    def segment(self, node: Located) -> str:
        """Return the text of a node, exactly as written."""
        return self.slice(self.span(node))

    def line_text(self, line: int) -> str:
        """Return a line (from 1) without its line end; empty beyond the last."""
        return self.lines[line - 1].rstrip("\r\n") if line <= len(self.lines) else ""

    def indentation(self, line: int) -> str:
        """Return the white space that a line begins with."""
        text = self.line_text(line)
        return text[: len(text) - len(text.lstrip())]

    @property
    def tree(self) -> ast.Module:
        """The parsed text, for readers that leave the nodes as they are. Raises as ``parse`` does."""
        if self._tree is None:
            # No cached_property: before 3.12 it holds a lock for all texts, for which who parses would wait in turn.
            with self._parsing:
                self._tree = self._tree or self.parse()
        return self._tree

    def parse(self) -> ast.Module:
        """Parse the text anew.

        Raises SourceError where Python cannot: broken syntax, null bytes, nesting beyond the parser's limits.
        """
        if len(self.text) > MAX_CHARACTERS:
            raise SourceError(f"the file has {len(self.text):,} characters; drygrad reads up to {MAX_CHARACTERS:,}")
        text = self.text.removeprefix("\ufeff")
        try:
            return parsed(text)
        except SyntaxError as error:
            line = error.lineno or 1
            column = max((error.offset or 1) - 1, 0)
            raise SourceSyntaxError(f"cannot parse: {error.msg}", Position(line, column)) from error
        except (RecursionError, MemoryError) as error:
            raise SourceError("cannot parse: an expression is nested too deeply") from error
        except ValueError as error:
            raise SourceError(f"cannot parse: {error}") from error


def decode(data: bytes) -> str:
    """Decode a Python file as Python does: BOM, PEP 263 cookie, else UTF-8. Line ends are kept.

    Raises SourceError with the reason where the bytes are not text in the encoding they declare.
    """
    if b"\x00" in data:
        raise SourceError("this is a binary file")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except SyntaxError as error:
        raise SourceError(f"cannot decode: {error.msg}") from error
    except (UnicodeError, LookupError) as error:  # UnicodeError alone: of codecs such as `undefined`
        raise SourceError(f"cannot decode: {error}") from error
    return text.removeprefix("\ufeff")


def encode(text: str, original: bytes) -> bytes:
    """Encode a changed text the way its file was encoded, BOM and PEP 263 cookie included."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(original).readline)
    return text.encode(encoding)


def read(path: Path) -> Source:
    """Read and decode a file.

    Raises SourceError where it is not Python text, OSError where it cannot be read.
    """
    return Source(decode(read_file(path)))


__all__ = ["MAX_CHARACTERS", "Source", "SourceError", "SourceSyntaxError", "decode", "encode", "read"]
