"""Which names a loop hands from one pass to the next: those that it reads before, or where, it binds them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from drygrad.worker.lines import Lines
from drygrad.worker.run import Place
from drygrad.worker.texts import tree_of


def carried_names(lines: Lines, place: Place) -> Iterator[tuple[str, Place]]:
    """Yield the names that the innermost loop around a place carries over, each with the line that binds it."""
    source = lines.source(place.path)
    for name, line in _carried("\n".join(source), place.line) if source is not None else ():
        text = source[line - 1] if source is not None else ""
        yield name, Place(place.path, line, len(text) - len(text.lstrip()), line, len(text.rstrip()))


@lru_cache(maxsize=16)
def _carried(text: str, line: int) -> tuple[tuple[str, int], ...]:
    loops = [
        node
        for node in ast.walk(tree_of(text))
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While)) and node.lineno < line <= (node.end_lineno or 0)
    ]
    innermost = max(loops, key=lambda node: node.lineno, default=None)
    return tuple(_of_loop(innermost)) if innermost is not None else ()


def _of_loop(loop: ast.For | ast.AsyncFor | ast.While) -> Iterator[tuple[str, int]]:
    read: dict[str, int] = {}
    for node in ast.walk(loop):
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            name = ast.unparse(node)
            read[name] = min(read.get(name, node.lineno), node.lineno)
    for statement in ast.walk(loop):
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
                for name in map(ast.unparse, parts):
                    if name in read and read[name] <= (statement.end_lineno or statement.lineno):
                        yield name, statement.lineno
