"""Functions within functions: which of them nobody else calls, and what they read of those around them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.static.tree import remembered, walk

Node = ast.FunctionDef | ast.AsyncFunctionDef


@remembered
def kept_within(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the functions within one that are not what it returns: those it calls, or hands to what calls them."""
    nodes = list(walk(function))
    results = [node.value for node in nodes if isinstance(node, ast.Return) and node.value is not None]
    returned = {part.id for result in results for part in _parts_of(result) if isinstance(part, ast.Name)}
    for node in nodes:
        if not isinstance(node, Node) or node is function:
            continue
        if node.name not in returned or node.decorator_list:
            yield node


@remembered
def taken_from(function: ast.AST) -> Iterator[tuple[ast.AST, frozenset[str]]]:
    """Yield the functions within one, with the names they read that it binds."""
    inner = [n for n in walk(function) if isinstance(n, Node) and n is not function]
    if not inner:
        return
    bound = _bound_names(function)
    for node in inner:
        read = {n.id for n in walk(node) if isinstance(n, ast.Name)}
        names = frozenset((read & bound) - _bound_names(node) - {"self", "cls"})
        if names:
            yield node, names


def _bound_names(function: ast.AST) -> set[str]:
    """Return the names that a function binds: its parameters, and what its own body assigns."""
    names = {n.arg for n in walk(function) if isinstance(n, ast.arg)}
    return names | {n.id for n in walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _parts_of(result: ast.expr) -> list[ast.expr]:
    return result.elts if isinstance(result, (ast.Tuple, ast.List)) else [result]
