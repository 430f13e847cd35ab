"""Inputs that share objects: an optimizer has the parameters of the very model that is passed beside it.

Expressions that follow the names of a program hold the same node wherever they mean the same object. What one input is,
others name; what is no input gets a name where it first stands: ``f(net := Net(), Adam(net.parameters()))``.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

_SOMETIMES = (ast.Lambda, ast.IfExp, ast.BoolOp, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Written(NamedTuple):
    """One input: its name, and the expression that makes it; None where none does."""

    name: str
    node: ast.expr | None


@dataclass
class Objects:
    """The expressions that a program has given names to, and those that are the same object as another."""

    names: dict[int, str] = field(default_factory=dict[int, str])
    same: dict[int, ast.expr] = field(default_factory=dict[int, ast.expr])
    """For what a method returned that changes its object in place: the object before."""
    _alive: list[ast.expr] = field(default_factory=list[ast.expr])

    def named(self, node: ast.expr, name: str) -> None:
        """Take note of the first name of an expression."""
        self.names.setdefault(id(node), name)
        self._alive.append(node)

    def changed(self, before: ast.expr, after: ast.expr, name: str) -> None:
        """Take note of an object that is changed, and goes on under its name."""
        self.same[id(after)] = before
        self.named(after, name)

    def history(self, node: ast.expr) -> Iterator[ast.expr]:
        """Yield an expression, and those that made the same object before."""
        yield node
        while id(node) in self.same:
            node = self.same[id(node)]
            yield node


def shared(inputs: Sequence[Written], objects: Objects, taken: frozenset[str], *, receiver: bool) -> list[Written]:
    """Return inputs in which each object is made once, those before others that these name.

    ``taken`` are names that mean something else; with a ``receiver``, the first input stays the first.
    """
    owners = _owners(inputs, objects, receiver=receiver)
    ordered = _ordered(inputs, owners, receiver=receiver)
    rebuilding = _Rebuilding(owners, _repeated(ordered, owners, objects), taken | {one.name for one in inputs})
    found = [Written(one.name, one.node and rebuilding.of(one)) for one in ordered]
    return found if all(_always_names(one.node) for one in found) else [*inputs]


def _owners(inputs: Sequence[Written], objects: Objects, *, receiver: bool) -> Mapping[int, str]:
    """Return the inputs' names by the expressions that they are; not of those that the receiver already needs."""
    first = inputs[0].node if receiver and inputs else None
    needed = {id(part) for part in ast.walk(first)} if first is not None else set[int]()
    owners: dict[int, str] = {}
    for one in inputs:
        if one.node is None or not _makes_object(one.node) or one.name.startswith("*"):
            continue
        for node in objects.history(one.node):
            if one.node is first or id(node) not in needed:
                owners.setdefault(id(node), one.name)
    return owners


def _ordered(inputs: Sequence[Written], owners: Mapping[int, str], *, receiver: bool) -> list[Written]:
    """Return the inputs such that each comes after those that it names."""
    fixed, waiting = ([*inputs[:1]], [*inputs[1:]]) if receiver else ([], [*inputs])
    while waiting:
        names = {one.name for one in waiting}
        free = (one for one in waiting if not (_named_in(one, owners) & (names - {one.name})))
        chosen = next(free, waiting[0])
        waiting.remove(chosen)
        fixed.append(chosen)
    return fixed


def _named_in(one: Written, owners: Mapping[int, str]) -> set[str]:
    parts = ast.walk(one.node) if one.node is not None else ()
    return {owners[id(part)] for part in parts if id(part) in owners}


def _repeated(inputs: Sequence[Written], owners: Mapping[int, str], objects: Objects) -> Mapping[int, str]:
    """Return the names of those expressions that several places share and no input is."""
    count: Counter[int] = Counter()

    def visit(node: ast.AST, own: str) -> None:
        if owners.get(id(node), own) != own:
            return
        if id(node) in objects.names and id(node) not in owners and _makes_object(node):
            count[id(node)] += 1
            if count[id(node)] > 1:
                return
        for child in ast.iter_child_nodes(node):
            visit(child, own)

    for one in inputs:
        if one.node is not None:
            visit(one.node, one.name)
    return {node: objects.names[node] for node, times in count.items() if times > 1}


def _makes_object(node: ast.AST) -> bool:
    """Say whether an expression calls something, and so may give another object each time."""
    return any(isinstance(part, ast.Call) for part in ast.walk(node))


class _Rebuilding:
    """Copies expressions, with a name in the place of what is already made."""

    def __init__(self, owners: Mapping[int, str], repeated: Mapping[int, str], taken: frozenset[str]) -> None:
        self._owners, self._repeated, self._taken = owners, repeated, taken
        self._introduced: dict[int, str] = {}

    def of(self, one: Written) -> ast.expr:
        assert one.node is not None
        return self._copied(one.node, one.name)

    def _copied(self, node: ast.expr, own: str) -> ast.expr:
        owner = self._owners.get(id(node), own)
        if owner != own:
            return ast.Name(owner, ast.Load())
        if id(node) in self._introduced:
            return ast.Name(self._introduced[id(node)], ast.Load())
        if id(node) not in self._repeated:
            return self._inside(node, own)
        name = self._free(self._repeated[id(node)])
        copied = self._inside(node, own)
        self._introduced[id(node)] = name
        return ast.NamedExpr(ast.Name(name, ast.Store()), copied)

    def _inside(self, node: ast.AST, own: str) -> Any:
        made: Any = type(node)
        return made(**{name: self._field(value, own) for name, value in ast.iter_fields(node)})

    def _field(self, value: Any, own: str) -> Any:
        if isinstance(value, list):
            return [self._field(item, own) for item in cast("list[Any]", value)]
        if isinstance(value, ast.expr):
            return self._copied(value, own)
        return self._inside(value, own) if isinstance(value, ast.AST) else value

    def _free(self, name: str) -> str:
        while name in self._taken or name in self._introduced.values():
            name += "_"
        return name


def _always_names(node: ast.expr | None) -> bool:
    """Say whether the names that an expression gives are given whenever it is evaluated, and seen outside of it."""
    within = (part for part in ast.walk(node) if isinstance(part, _SOMETIMES)) if node is not None else ()
    return not any(isinstance(inner, ast.NamedExpr) for part in within for inner in ast.walk(part))
