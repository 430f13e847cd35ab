"""Functions that fill what they are given: ``fill(buffer, steps)`` is a part of how the buffer is made."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set
from typing import TypeAlias

Fillers: TypeAlias = "Mapping[str, Mapping[int | str, str]]"
"""The functions of a file that fill arguments: those parameters, by position and by name."""

_ADDING = frozenset(
    "append appendleft extend add push put insert store remember record update setdefault observe register write "
    "add_transition add_sample add_experience append_sample cache enqueue".split()
)
_LEARNING = frozenset(("backward",))


def filled_by(function: ast.FunctionDef) -> Mapping[int | str, str]:
    """Return the parameters to whose objects a function adds something; none where it learns, for that takes long."""
    called = [node.func.attr for node in _calls(function) if isinstance(node.func, ast.Attribute)]
    if not _LEARNING.isdisjoint(called):
        return {}
    names = [p.arg for p in (*function.args.posonlyargs, *function.args.args)]
    filled = {*_filled(function)}
    found: dict[int | str, str] = {index: name for index, name in enumerate(names) if name in filled}
    return found | {p.arg: p.arg for p in (*function.args.args, *function.args.kwonlyargs) if p.arg in filled}


def calls_filler(call: ast.Call, needed: Set[str], fillers: Fillers) -> bool:
    """Say whether a call has a function of the file fill one of the needed objects."""
    parameters = fillers.get(call.func.id) if isinstance(call.func, ast.Name) else None
    if parameters is None:
        return False
    given: list[tuple[int | str, ast.expr]] = [*enumerate(call.args)]
    given += [(keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg is not None]
    return any(place in parameters and _root(value) in needed for place, value in given)


def _calls(function: ast.FunctionDef) -> Iterator[ast.Call]:
    return (node for node in ast.walk(function) if isinstance(node, ast.Call))


def _filled(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the names to whose objects something is added, or in which something is replaced."""
    for node in ast.walk(function):
        found: ast.AST | None = None
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            target = node.value.func
            if isinstance(target, ast.Attribute) and target.attr in _ADDING:
                found = target.value
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            found = node.value
        name = _root(found) if found is not None else None
        if name is not None:
            yield name


def _root(node: ast.AST) -> str | None:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
