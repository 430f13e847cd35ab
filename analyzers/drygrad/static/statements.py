"""Which statement a line belongs to: its own lines, and not those of the statements inside it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from drygrad.static.source import Source

Block: TypeAlias = ast.stmt | ast.excepthandler | ast.match_case


class Lines(NamedTuple):
    """The first and the last line of a statement; of a compound one, those of its header."""

    first: int
    last: int

    def holds(self, line: int) -> bool:
        """Say whether a line is one of these."""
        return self.first <= line <= self.last


def lines_of(tree: ast.Module, source: Source, line: int) -> Lines | None:
    """Return the lines of the innermost statement that has the line; None for a line between statements."""
    outer = statement_at(tree, line)
    if outer is None:
        return None
    own = own_lines(outer, source)
    return own if own.holds(line) else None


def statement_at(tree: ast.Module, line: int) -> Block | None:
    """Return the innermost statement (or handler, or case) around a line."""
    inner = _child(tree, line)
    outer = None
    while inner is not None:
        outer, inner = inner, _child(inner, line)
    return outer


def _child(node: ast.Module | Block, line: int) -> Block | None:
    return next((child for child in _children(node) if first_line(child) <= line <= _last_line(child)), None)


def _children(node: ast.Module | Block) -> Iterator[Block]:
    for name in ("body", "handlers", "orelse", "finalbody", "cases"):
        yield from getattr(node, name, ())


def first_line(node: Block) -> int:
    """Return the line that a statement begins in, its decorators included."""
    if isinstance(node, ast.match_case):
        return node.pattern.lineno
    decorators = getattr(node, "decorator_list", None)
    return min(decorators[0].lineno, node.lineno) if decorators else node.lineno


def _last_line(node: Block) -> int:
    if isinstance(node, ast.match_case):
        return _last_line(node.body[-1])
    return node.end_lineno or node.lineno


def own_lines(node: Block, source: Source) -> Lines:
    """Return the lines of a statement; of a compound one, those of its header."""
    first = first_line(node)
    child = next(_children(node), None)
    if child is None:
        return Lines(first, _last_line(node))
    last = max(first_line(child) - 1, first)
    while last > first and source.line_text(last).lstrip()[:1] in ("", "#"):
        last -= 1
    return Lines(first, last)
