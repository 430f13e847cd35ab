"""Whose objects change when a name's object is changed: other names of it, views of it, and what holds it.

``y = x`` and ``y = x[1:]`` share with ``x``, whichever is changed. A part (``w = net.weight``) changes its whole, and
what is put into a list changes the list, but not the other way round.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from drygrad.dryrun.names import bound_names

Affected: TypeAlias = Mapping[str, frozenset[str]]
"""For each name those whose objects change with its own."""

_VIEWS = frozenset(
    "view view_as reshape flatten squeeze unsqueeze t transpose permute expand narrow select diagonal unbind chunk"
    " split detach numpy".split()
)
"""Methods of tensors whose result shares their memory."""

_GETTERS = frozenset(
    "get values items parameters named_parameters children named_children modules named_modules buffers state_dict"
    " get_submodule get_parameter".split()
)
"""Methods whose result is a part of the object."""


def affected_before(statements: Iterable[ast.stmt]) -> Iterator[Affected]:
    """Yield what is known before each statement."""
    known = _Known()
    for statement in statements:
        yield dict(known.affected)
        known.follow(statement)


def origin(node: ast.expr) -> tuple[str, bool] | None:
    """Return the name whose object an expression is, and whether it is a part of it; None where it is a new object."""
    match node:
        case ast.Name(id=name):
            return name, False
        case ast.Attribute(value=value) | ast.Subscript(value=value, slice=ast.Constant(value=str())):
            found = origin(value)
            return (found[0], True) if found else None
        case ast.Subscript(value=value) | ast.Starred(value=value):
            return origin(value)
        case ast.Call(func=ast.Attribute(value=value, attr=method)) if method in _VIEWS | _GETTERS:
            found = origin(value)
            return (found[0], found[1] or method in _GETTERS) if found else None
        case _:
            return None


def assignments(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the targets of an assignment, each with what it gets: of ``a, b = c, d`` the pairs."""
    if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
        for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
            yield from _pairs(target, statement.value)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    sides = (ast.Tuple, ast.List)
    if isinstance(target, sides) and isinstance(value, sides) and len(target.elts) == len(value.elts):
        yield from zip(target.elts, value.elts, strict=True)
    else:
        yield target, value


class _Known:
    """What is known at one point of the way."""

    def __init__(self) -> None:
        self.affected: dict[str, frozenset[str]] = {}

    def follow(self, statement: ast.stmt) -> None:
        """Go past a statement; what a block may have bound is added to what was known before it."""
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            pairs = [*assignments(statement)]
            kept = {found[0] for _, value in pairs if (found := origin(value))}  # x = x.view(-1) goes on sharing
            for name in bound_names(statement) - kept:
                self._forget(name)
            self._assign(pairs)
        elif not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for inner in ast.walk(statement):
                if isinstance(inner, ast.stmt):
                    self._assign(assignments(inner))

    def _assign(self, pairs: Iterable[tuple[ast.expr, ast.expr]]) -> None:
        for target, value in pairs:
            holder = origin(target)
            names = bound_names(target) or ({holder[0]} if holder else set[str]())
            for name in names:
                self._given(name, value, is_held=not bound_names(target))

    def _given(self, name: str, value: ast.expr, *, is_held: bool) -> None:
        found = origin(value)
        if found is not None:
            other, is_part = found
            if not is_held:
                self._affects(name, other)
            if not is_part or is_held:
                self._affects(other, name)
        elif isinstance(value, (ast.Tuple, ast.List, ast.Dict)):
            parts = value.values if isinstance(value, ast.Dict) else value.elts
            for part in parts:
                self._given(name, part, is_held=True)

    def _affects(self, one: str, other: str) -> None:
        if one != other:
            far = {other, *self.affected.get(other, ())}
            for near in (one, *(name for name, others in self.affected.items() if one in others)):
                self.affected[near] = self.affected.get(near, frozenset()) | (far - {near})

    def _forget(self, name: str) -> None:
        self.affected.pop(name, None)
        for near, others in self.affected.items():
            self.affected[near] = others - {name}
