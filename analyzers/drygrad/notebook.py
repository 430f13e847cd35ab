"""Notebooks: their Python cells as one module, and the way back from the module to the cells."""

from __future__ import annotations

import ast
import json
import re
import warnings
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from drygrad.static.source import SourceError

_MARK = re.compile(r"^# <drygrad cell (\d+)>\n", re.MULTILINE)
_MASKED = re.compile(r"^.*# <drygrad line (\d+)>$", re.MULTILINE)
_MAGIC = re.compile(r"\s*(?:%{1,2}[A-Za-z_]|!|\?|[\w.]+\?{1,2}\s*$)")
_ASSIGNED_MAGIC = re.compile(r"(\s*[\w., ]+?)\s*=\s*[!%]\s*\w")
_PYTHON_CELL_MAGIC = re.compile(r"\s*%%(?:time|timeit|capture|prun|python3?)\b")


@dataclass(frozen=True)
class Module:
    """Cells joined to one text. A marker line stands before each cell; lines of IPython's own syntax are masked."""

    text: str
    starts: tuple[int, ...]
    masked: tuple[str, ...]
    unfinished: tuple[bool, ...]

    def locate(self, line: int) -> tuple[int, int]:
        """Return the cell (from 0) and the line in it (from 1) of a line of the module."""
        cell = max(bisect_right(self.starts, line) - 1, 0)
        return cell, max(line - self.starts[cell], 1) if self.starts else line

    def split(self, text: str) -> list[str] | None:
        """Return the cells of a changed module; None if its marks or masks are no longer whole."""
        pieces = _MARK.split(text)
        if [int(number) for number in pieces[1::2]] != list(range(len(self.starts))):
            return None
        if sorted(int(number) for number in _MASKED.findall(text)) != list(range(len(self.masked))):
            return None
        cells = [_MASKED.sub(lambda match: self.masked[int(match[1])], piece) for piece in pieces[2::2]]
        return [c.removesuffix("\n") if u else c for c, u in zip(cells, self.unfinished, strict=True)]


def join(cells: Sequence[str]) -> Module:
    """Join the sources of Python cells."""
    pieces: list[str] = []
    starts: list[int] = []
    masked: list[str] = []
    line = 1
    for number, cell in enumerate(cells):
        plain = cell.replace("\r\n", "\n").replace("\r", "\n")
        body = _mask(plain, masked)
        starts.append(line)
        pieces += [f"# <drygrad cell {number}>\n", body if body.endswith("\n") else body + "\n"]
        line += 1 + pieces[-1].count("\n")
    unfinished = tuple(not cell.endswith(("\n", "\r")) for cell in cells)
    return Module("".join(pieces), tuple(starts), tuple(masked), unfinished)


def _mask(cell: str, masked: list[str]) -> str:
    """Replace IPython's own syntax, line for line, and remember what stood there."""
    if not any(sign in cell for sign in "%!?") or _is_python(cell):
        return cell
    lines = cell.split("\n")
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    if lines[first].lstrip().startswith("%%") and not _PYTHON_CELL_MAGIC.match(lines[first]):
        return "\n".join(_replaced(line, "", masked) if line.strip() else line for line in lines)
    return "\n".join(_masked_lines(lines, masked))


def _masked_lines(lines: list[str], masked: list[str]) -> Iterator[str]:
    continued = False
    for line in lines:
        if continued or _MAGIC.match(line):
            continued = line.endswith("\\")
            yield _replaced(line, line[: len(line) - len(line.lstrip())], masked)
        elif match := _ASSIGNED_MAGIC.match(line):
            masked.append(line)
            yield f"{match[1]} = None  # <drygrad line {len(masked) - 1}>"
        else:
            yield line


def _replaced(line: str, indentation: str, masked: list[str]) -> str:
    masked.append(line)
    return f"{indentation}pass  # <drygrad line {len(masked) - 1}>"


def _is_python(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


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
