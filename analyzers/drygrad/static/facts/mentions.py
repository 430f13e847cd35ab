"""What each top-level statement mentions: the names it uses and the attributes it assigns."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from drygrad.static.tree import walk


@dataclass(frozen=True)
class Mentions:
    """The names that a top-level statement uses, and the attributes that it assigns outside of any ``__init__``."""

    names: frozenset[str]
    reassigned: frozenset[str]

    @classmethod
    def of(cls, statement: ast.stmt) -> Mentions:
        """Read a statement."""
        names = (
            node.id if isinstance(node, ast.Name) else node.attr
            for node in walk(statement)
            if isinstance(node, (ast.Name, ast.Attribute))
        )
        return cls(frozenset(names), frozenset(_reassigned_attributes([statement], in_init=False)))


def mentions_of(tree: ast.Module, known: Mapping[ast.stmt, Mentions]) -> dict[ast.stmt, Mentions]:
    """Return what each statement of a file mentions; those that are known are not read again."""
    return {statement: known.get(statement) or Mentions.of(statement) for statement in tree.body}


def united(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    """Return the names that stand in any of the sets."""
    return frozenset[str]().union(*sets)


def _reassigned_attributes(body: list[ast.stmt], in_init: bool) -> Iterator[str]:
    """Yield the attributes that are bound, or whose items are changed, anywhere outside an ``__init__``."""
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _reassigned_attributes(statement.body, statement.name == "__init__")
            continue
        if not in_init:
            yield from _assigned_attributes(statement)
        for name in ("body", "orelse", "finalbody"):
            yield from _reassigned_attributes(getattr(statement, name, []), in_init)
        for handler in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            yield from _reassigned_attributes(handler.body, in_init)


def _assigned_attributes(statement: ast.stmt) -> Iterator[str]:
    """Yield the names of attributes that a statement binds, and ``name[]`` of those whose items it changes."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Attribute(attr=attr), attr="append" | "extend"))):
            yield f"{attr}[]"
        case _:
            pass
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    for target in targets:
        for element in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
            if isinstance(element, ast.Attribute):
                yield element.attr
            if isinstance(element, ast.Subscript) and isinstance(element.value, ast.Attribute):
                yield f"{element.value.attr}[]"
