"""Objects: which are modules, and where their attributes are that their methods assign."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from drygrad.static.facts.places.entries import STATE, is_optimizer
from drygrad.static.facts.places.evaluation import Scope
from drygrad.static.facts.places.inner import Node
from drygrad.static.facts.places.keeping import BEGINS, kept, of_stores, registered_names, stored_names
from drygrad.static.facts.places.lattice import MODULE, NOWHERE, UNKNOWN, At, Parts, Place
from drygrad.static.facts.values import Class, Function, Object, Reference, Value
from drygrad.static.tree import remembered, walk

if TYPE_CHECKING:
    from drygrad.static.facts.places.following import Places, Summary

_MOVES_ALL = frozenset({"_apply", "to", "cuda"})
OWN = "self:"
"""How roots begin that stand for what an object was given when it was made."""


class Objects:
    """The objects of a file's classes."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._attributes: dict[tuple[ast.AST, str], Place] = {}

    def inherited(self, cls: Class, name: str) -> Function | None:
        """Return a method that a class has from a base of another file."""
        bases = [base for each_class in cls.lineage() for base in each_class.bases if isinstance(base, Reference)]
        for base in bases:
            found = self._places.facts.linked(base.name)
            method = found.member(name) if isinstance(found, Class) else None
            if isinstance(method, Function):
                return method
        return None

    def is_module(self, cls: Class | None) -> bool:
        """Say whether objects of a class are modules: for certain, or as good as always."""
        if cls is None:
            return False
        if Object(cls.name, cls=cls).is_module:
            return True
        foreign = any(_is_foreign(base) for each_class in cls.lineage() for base in each_class.bases)
        init = cls.member("__init__")
        return foreign and isinstance(cls.member("forward"), Function) and isinstance(init, Function) and _begins(init)

    def of_buffer(self, scope: Scope, name: str, place: Place) -> Place:
        """Return where a buffer is: with its module, except in a method that replaces one that the module moved."""
        if not isinstance(place, Parts) and place == NOWHERE:
            return NOWHERE
        if BEGINS.match(scope.function.name) is not None:
            return frozenset({At(MODULE, tensor=True)})
        return place if self._begins_with_buffer(scope.owner, name) else UNKNOWN

    def _begins_with_buffer(self, cls: Class | None, name: str) -> bool:
        """Say whether an object has a buffer from the beginning."""
        members = (m for each in cls.lineage() for m in each.members.values()) if cls is not None else ()
        return any(isinstance(m, Function) and _is_beginning(m) and name in registered_names(m.node) for m in members)

    def of_attribute(self, cls: Class, name: str, reader: ast.AST) -> Place:
        """Return where an attribute of an object of a class is, as a method reads it."""
        key = (cls.node, name)
        known = self._attributes.get(key)
        if known is None:
            self._attributes[key] = UNKNOWN  # while it is looked for: it may depend on itself
            known = self._attributes[key] = self._attribute(cls, name)
        return known

    def _attribute(self, cls: Class, name: str) -> Place:
        if name in self.assigned_elsewhere or any(_MOVES_ALL & each.members.keys() for each in cls.lineage()):
            return UNKNOWN
        stores = [*self._stores(cls, name)]
        if not self.is_module(cls) and (given := _given_to(name, stores)) is not None:
            return given
        begun: list[Place] = []
        later: list[Place] = []
        for method, summary in stores:
            found = [kept(statement, place, method) for statement, place in summary.stores.get(name, [])]
            (begun if BEGINS.match(method.name) else later).extend(found or [UNKNOWN])
        return of_stores(begun, later)

    def _stores(self, cls: Class, name: str) -> Iterator[tuple[Node, Summary]]:
        """Yield the methods that assign an attribute, or what an optimizer keeps under a name."""
        of_state = name.startswith(f"{STATE}[") and is_optimizer(cls)
        for each_class in cls.lineage():
            for member in each_class.members.values():
                method = member.node if isinstance(member, Function) else None
                if not isinstance(method, Node):
                    continue
                if name in stored_names(method) or (of_state and name in self._places.summary(method).stores):
                    yield method, self._places.summary(method)

    @cached_property
    def assigned_elsewhere(self) -> frozenset[str]:
        """The attributes that something else than the object itself assigns: ``model.mask = mask``."""
        return frozenset(name for statement in self._places.facts.tree.body for name in _assigned_outside(statement))


def _given_to(name: str, stores: list[tuple[Node, Summary]]) -> Place | None:
    """Return the place of a tensor that an object, no module, is given when it is made, and keeps as it is."""
    places = [(m, summary, place) for m, summary in stores for place in _stored(summary, name)]
    if not places or not all(_is_given(*held) for held in places):
        return None
    return frozenset({At(f"{OWN}{name}", tensor=True)})


def _stored(summary: Summary, name: str) -> list[Place]:
    return [place for _, place in summary.stores.get(name, [])] or [UNKNOWN]


def _is_given(method: Node, summary: Summary, place: Place) -> bool:
    """Say whether a method that begins an object's life is given what it keeps, and shows it to be a tensor."""
    parameters = {parameter.arg for parameter in (*method.args.args[1:], *method.args.kwonlyargs)}
    given = parameters & summary.tensors
    as_it_is = not isinstance(place, Parts) and all(
        isinstance(a, At) and a.root in given and not a.moved for a in place
    )
    return as_it_is and BEGINS.match(method.name) is not None


@remembered
def _assigned_outside(statement: ast.AST) -> Iterator[str]:
    for node in walk(statement):
        match node:
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                pass
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case _:
                pass


def _is_foreign(base: Value) -> bool:
    known = ("builtins.", "torch.", "abc.", "typing.")
    return not isinstance(base, Class) and not (isinstance(base, Reference) and base.name.startswith(known))


def _is_beginning(method: Function) -> bool:
    """Say whether a method is called while its object is made."""
    return BEGINS.match(getattr(method.node, "name", "")) is not None


def _begins(init: Function) -> bool:
    """Say whether a constructor calls its base's."""
    called = (node.func for node in walk(init.node) if isinstance(node, ast.Call))
    return any(isinstance(function, ast.Attribute) and function.attr == "__init__" for function in called)
