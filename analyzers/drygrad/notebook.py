"""Notebooks: their Python cells as one module, and the way back from the module to the cells."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from drygrad.magics import as_python
from drygrad.model import Fix, Span
from drygrad.static.source import Source, SourceError

_MARK = re.compile(r"^# <drygrad cell (\d+)>\n", re.MULTILINE)
_MASKED = re.compile(r"^.*# <drygrad line (\d+)>$", re.MULTILINE)
_LINE = re.compile(r"\bline (\d+)\b")
_MARKED = re.compile(r"# <drygrad (?:cell|line) \d+>$")


class Mask(NamedTuple):
    """A line of a cell that is not Python, and what stands for it in the module."""

    line: str
    shown: str


@dataclass(frozen=True)
class Module:
    """Cells joined to one text. A marker line stands before each cell; lines of IPython's own syntax are masked."""

    text: str
    starts: tuple[int, ...]
    masked: tuple[Mask, ...]
    unfinished: tuple[bool, ...]

    def locate(self, line: int) -> tuple[int, int]:
        """Return the cell (from 0) and the line in it (from 1) of a line of the module."""
        cell = max(bisect_right(self.starts, line) - 1, 0)
        return cell, max(line - self.starts[cell], 1) if self.starts else line

    def unmasked(self, text: str) -> str:
        """Return a part of the module as it is written in the notebook."""
        return _MASKED.sub(lambda match: self.masked[int(match[1])].line, text)

    def split(self, text: str) -> list[str] | None:
        """Return the cells of a changed module; None if its marks or masks are no longer whole."""
        pieces = _MARK.split(text)
        if [int(number) for number in pieces[1::2]] != list(range(len(self.starts))):
            return None
        if [match[0] for match in _MASKED.finditer(text)] != [mask.shown for mask in self.masked]:
            return None
        cells = [self.unmasked(piece) for piece in pieces[2::2]]
        return [c.removesuffix("\n") if u else c for c, u in zip(cells, self.unfinished, strict=True)]


def join(cells: Sequence[str]) -> Module:
    """Join the sources of Python cells."""
    pieces: list[str] = []
    starts: list[int] = []
    masked: list[Mask] = []
    line = 1
    for number, cell in enumerate(cells):
        plain = cell.replace("\r\n", "\n").replace("\r", "\n")
        body = _mask(plain, masked)
        starts.append(line)
        pieces += [f"# <drygrad cell {number}>\n", body if body.endswith("\n") else body + "\n"]
        line += 1 + pieces[-1].count("\n")
    unfinished = tuple(not cell.endswith(("\n", "\r")) for cell in cells)
    return Module("".join(pieces), tuple(starts), tuple(masked), unfinished)


def _mask(cell: str, masked: list[Mask]) -> str:
    """Replace IPython's own syntax, line for line; a cell that is no Python in spite of that stays for the parser."""
    python = as_python(cell)
    if python is None or python == cell:
        return cell
    pairs = zip(cell.split("\n"), python.split("\n"), strict=True)
    return "\n".join(line if line == plain else _masked(line, plain, masked) for line, plain in pairs)


def _masked(line: str, plain: str, masked: list[Mask]) -> str:
    mask = Mask(line, f"{plain}  # <drygrad line {len(masked)}>")
    masked.append(mask)
    return mask.shown


def in_cells(sentence: str, locate: Callable[[int], tuple[int, int]], home: int | None = None) -> str:
    """Return a sentence about lines of the module as one about lines of cells (from 1); ``home`` needs no mention."""

    def said(match: re.Match[str]) -> str:
        cell, line = locate(int(match[1]))
        return f"line {line}" if cell == home else f"line {line} of cell {cell}"

    return _LINE.sub(said, sentence)


def is_editable(source: Source, fix: Fix) -> bool:
    """Say whether a fix leaves the marks of a module and its masked lines alone."""
    return not any(_MARKED.search(source.line_text(line)) for edit in fix.edits for line in _lines(edit.span))


def _lines(span: Span) -> range:
    start, end = span
    return range(start.line, end.line if end.column == 0 and end > start else end.line + 1)


@dataclass(frozen=True)
class Notebook:
    """An .ipynb document: what was read, and the places of its Python cells in the list of all cells."""

    original: str
    document: dict[str, Any]
    places: tuple[int, ...]
    module: Module = field(repr=False)

    @classmethod
    def load(cls, text: str) -> Notebook:
        """Read a notebook; SourceError says why a text is none."""
        try:
            document = _table(json.loads(text))
        except (ValueError, RecursionError) as error:
            raise SourceError(f"not a notebook: {error}") from error
        cells = document.get("cells")
        if not isinstance(cells, list):
            raise SourceError("not a notebook of format 4: it has no list of cells")
        listed = cast("list[Any]", cells)
        places = tuple(n for n, cell in enumerate(listed) if _is_code(cell)) if _speaks_python(document) else ()
        return cls(text, document, places, join([_source(listed[place]) for place in places]))

    def cell_number(self, line: int) -> tuple[int, int]:
        """Return the cell (from 1, of all cells) and the line in it of a line of the module."""
        cell, inner = self.module.locate(line)
        return (self.places[cell] + 1 if self.places else 1), inner

    def rewritten(self, module_text: str) -> str | None:
        """Return the document with the cells of a changed module; None if the change crossed cells."""
        sources = self.module.split(module_text)
        if sources is None:
            return None
        cells = [dict(cell) for cell in self.document["cells"]]
        for place, source in zip(self.places, sources, strict=True):
            if source != _source(cells[place]):
                as_list = isinstance(cells[place]["source"], list)
                cells[place]["source"] = source.splitlines(keepends=True) if as_list else source
        indentation = re.match(r"\s*\{\r?\n([ \t]+)", self.original)
        ascii_only = self.original.isascii() and "\\u" in self.original
        indent = indentation[1] if indentation else None
        text = json.dumps({**self.document, "cells": cells}, indent=indent, ensure_ascii=ascii_only)
        return text + "\n" if self.original.endswith("\n") else text


def _is_code(cell: object) -> bool:
    return isinstance(cell, dict) and cast("dict[str, Any]", cell).get("cell_type") == "code"


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source", "")
    return "".join(str(line) for line in cast("list[Any]", source)) if isinstance(source, list) else str(source)


def _speaks_python(document: dict[str, Any]) -> bool:
    metadata = _table(document.get("metadata"))
    info, kernel = _table(metadata.get("language_info")), _table(metadata.get("kernelspec"))
    language = info.get("name") or kernel.get("language") or "python"
    return str(language).lower() in ("python", "ipython")


def _table(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
