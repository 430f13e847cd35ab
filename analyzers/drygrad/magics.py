"""IPython's additions to Python: made harmless, with every line and column left where it is."""

from __future__ import annotations

import re
from functools import lru_cache

from drygrad.parsing import parsed

_CELL_MAGIC = re.compile(r"\s*%%(\w+|!)")
_PYTHON_CELL_MAGICS = frozenset({"time", "timeit", "capture", "debug", "prun", "memit", "snakeviz", "wandb"})
_RUNS_ITS_LINE = re.compile(r"(\s*)(%(?:time|timeit|prun|memit)(?:\s+-\w+(?:\s+\d+)?)*\s+)(?=[^\s-])")
_LINE_MAGIC = re.compile(r"(\s*)(?:[%!?]|.*\?\s*$|(?:pip|conda|mamba|cd|ls|mkdir|rm|cp|mv|cat)\s+[^\s=(.,:\[])")
"""With the commands that need no ``%`` where no variable has their name."""
_ASSIGNED_MAGIC = re.compile(r"(\s*[^=!%#]+=\s*)[%!].*")
_JOINS_NEXT = re.compile(r"\\[\r\n]+$")
_RUN = "pass ;"
"""Stands for a magic whose line is Python."""
_NO_PYTHON = re.compile(r"(\s*)pass ;")
"""A line that turned out to be none."""
_MAX_MAGICS = 100


@lru_cache(maxsize=512)
def as_python(cell: str) -> str | None:
    """Return a cell's text as Python of the same shape; None if it is no Python, magics aside.

    What a line magic is, the parser decides: where it stops, and the line looks like one.
    """
    lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", cell)
    magic = _CELL_MAGIC.match(cell)
    if magic and magic[1] not in _PYTHON_CELL_MAGICS:
        return "".join(_line_end(line) for line in lines)
    if magic:
        index = next(i for i, line in enumerate(lines) if line.strip())
        lines[index] = _line_end(lines[index])
    for _ in range(_MAX_MAGICS):
        text = "".join(lines)
        wrong = _first_error(text)
        if wrong is None:
            return text
        if not 0 < wrong <= len(lines) or not _mask(lines, wrong - 1):
            return None
    return None


def _mask(lines: list[str], index: int) -> bool:
    """Make the magic of a line harmless, and the lines that its backslash joins to it; say whether there is one."""
    line = lines[index]
    plain = _without_magic(line)
    if plain is None:
        return False
    lines[index] = plain
    while _JOINS_NEXT.search(line) and not _JOINS_NEXT.search(plain) and index + 1 < len(lines):
        index += 1
        line, lines[index] = lines[index], _line_end(lines[index])
    return True


def _first_error(text: str) -> int | None:
    """Return the line at which Python stops to understand; None if it understands all."""
    try:
        parsed(text)
    except SyntaxError as error:
        return error.lineno or 0
    except (ValueError, RecursionError, MemoryError):
        return 0
    return None


def _without_magic(line: str) -> str | None:
    """Return a line without its magic, what Python runs left in its columns; None if the line has none."""
    if match := _RUNS_ITS_LINE.match(line):
        return match[1] + _RUN.ljust(len(match[2])) + line[match.end() :]
    if match := _NO_PYTHON.match(line) or _LINE_MAGIC.match(line):
        return f"{match[1]}pass{_line_end(line)}"
    if match := _ASSIGNED_MAGIC.match(line):
        return f"{match[1]}_{_line_end(line)}"
    return None


def _line_end(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]
