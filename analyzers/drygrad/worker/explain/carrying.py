"""What goes from one pass to the next: names that a loop reads before, or where, it binds them, and attributes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

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


def first_kept(node: Any, lines: Lines) -> tuple[str, Place] | None:
    """Return the attribute that was the first in its function to keep a graph that comes to a node, and its line.

    None where the line of the node itself sets no attribute.
    """
    here = lines.of_node(node)
    found: dict[int, tuple[str, Place]] = {}
    waiting, seen = [node], {node}
    while waiting and here is not None:
        passed = waiting.pop()
        made = lines.of_node(passed)
        if made is None or made.code is not here.code:
            continue
        place = lines.place(made)
        name = _attribute_set(place, lines) if place is not None else None
        if name is not None and place is not None:
            found[passed._sequence_nr()] = name, place
        for following, _ in passed.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return found[min(found)] if node._sequence_nr() in found else None


def _attribute_set(place: Place, lines: Lines) -> str | None:
    """Return the attribute of `self` that the statement at a place sets."""
    source = lines.source(place.path)
    statements = ast.walk(tree_of("\n".join(source))) if source is not None else ()
    for node in statements:
        if isinstance(node, (ast.Assign, ast.AugAssign)) and node.lineno <= place.line <= (node.end_lineno or 0):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            text = ast.unparse(target)
            return text if text.startswith("self.") and isinstance(target, ast.Attribute) else None
    return None
