"""What each top-level statement mentions: the names it uses and the attributes it assigns."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from drygrad.static.tree import walk


@dataclass(frozen=True)
class Mentions:
    """The names that a top-level statement uses, and the attributes that it assigns, but for what an ``__init__`` does.

    An attribute of another object, such as a layer that is replaced in a model, counts wherever it is assigned.
    """

    names: frozenset[str]
    """Of variables and attributes."""
    variables: frozenset[str]
    reassigned: frozenset[str]

    @classmethod
    def of(cls, statement: ast.stmt) -> Mentions:
        """Read a statement."""
        variables = {node.id for node in walk(statement) if isinstance(node, ast.Name)}
        attributes = {node.attr for node in walk(statement) if isinstance(node, ast.Attribute)}
        reassigned = frozenset(_reassigned_attributes([statement], None))
        return cls(frozenset(variables | attributes), frozenset(variables), reassigned)


def mentions_of(tree: ast.Module, known: Mapping[ast.stmt, Mentions]) -> dict[ast.stmt, Mentions]:
    """Return what each statement of a file mentions; those that are known are not read again."""
    return {statement: known.get(statement) or Mentions.of(statement) for statement in tree.body}


def united(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    """Return the names that stand in any of the sets."""
    return frozenset[str]().union(*sets)


def _reassigned_attributes(body: list[ast.stmt], own: str | None) -> Iterator[str]:
    """Yield the attributes that are bound, or whose items are changed, but for what an ``__init__`` gives its object.

    ``own`` is what the ``__init__`` around the statements calls that object.
    """
    for statement in body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _reassigned_attributes(statement.body, _own_name(statement))
            continue
        yield from _assigned_attributes(statement, own)
        for name in ("body", "orelse", "finalbody"):
            yield from _reassigned_attributes(getattr(statement, name, []), own)
        for handler in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            yield from _reassigned_attributes(handler.body, own)


def _own_name(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str | None:
    given = [*function.args.posonlyargs, *function.args.args]
    return given[0].arg if function.name == "__init__" and given else None


def _assigned_attributes(statement: ast.stmt, own: str | None) -> Iterator[str]:
    """Yield the names of attributes that a statement binds, and ``name[]`` of those whose items it changes."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Attribute() as changed, attr="append" | "extend"))):
            yield from _named(changed, own, "[]")
        case ast.Expr(value=ast.Call(func=ast.Name(id="setattr"), args=[_, ast.Constant(value=str(name)), _])):
            yield name
        case _:
            pass
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    for target in targets:
        for element in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
            if isinstance(element, ast.Attribute):
                yield from _named(element, own)
            if isinstance(element, ast.Subscript) and isinstance(element.value, ast.Attribute):
                yield from _named(element.value, own, "[]")


def _named(attribute: ast.Attribute, own: str | None, part: str = "") -> Iterator[str]:
    if not isinstance(attribute.value, ast.Name) or attribute.value.id != own:
        yield f"{attribute.attr}{part}"
