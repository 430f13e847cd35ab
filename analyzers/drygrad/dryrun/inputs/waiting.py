"""Calls that wait until their objects are ready: what builds their inputs may not be all that happens before."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from drygrad.dryrun.names import blocks, read_names

_LEAVES = (ast.Continue, ast.Break, ast.Return, ast.Raise)
_OF_KIND = frozenset({"isinstance", "issubclass", "hasattr", "callable", "type"})


def waits(call: ast.Call, body: Sequence[ast.stmt], way: Sequence[ast.stmt]) -> bool:
    """Say whether a condition on the way to a call asks one of its objects: a buffer that must have been filled.

    ``way`` are the statements around the call, from the outermost, which stands in ``body``.
    """
    names = read_names(call)
    return any(_asks(condition, names) for condition in _conditions(body, way))


def _conditions(body: Sequence[ast.stmt], way: Sequence[ast.stmt]) -> Iterator[ast.expr]:
    """Yield what must hold, or must not, for a call to be reached."""
    for statement in body:
        if statement is way[0]:
            if len(way) > 1:
                if isinstance(statement, (ast.If, ast.While)):
                    yield statement.test
                yield from _conditions(next(b for b in blocks(statement) if way[1] in b), way[1:])
            return
        if isinstance(statement, ast.If) and isinstance(statement.body[-1], _LEAVES):
            yield statement.test


def _asks(condition: ast.expr, names: set[str]) -> bool:
    """Say whether a condition calls something on one of the names."""
    return any(
        isinstance(node, ast.Call)
        and not (isinstance(node.func, ast.Name) and node.func.id in _OF_KIND)
        and read_names(node) & names
        for node in ast.walk(condition)
    )
