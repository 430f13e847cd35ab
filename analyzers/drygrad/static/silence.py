"""Visitors that have nothing to say of a function, and need not be asked again while it stays as it is.

A visitor that found nothing in a body, and asked of nothing but this body, finds nothing in the next version of the
text either, if the body's nodes are still the same and so is what the interpretation has found out about them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from drygrad.static.context import Context, NodeType
from drygrad.static.facts.module import ModuleFacts
from drygrad.static.facts.notes import Body
from drygrad.static.registry import Visitor
from drygrad.static.source import Source
from drygrad.static.tree import Statement

Answer = TypeVar("Answer")
Silent: TypeAlias = tuple[type, Visitor]
"""A visitor, and the type of the nodes of which it has nothing to say: one may wait for several."""


class Silence:
    """Which visitors are silent of the bodies in which top-level statement."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Statement, tuple[tuple[Body | None, ...], set[Silent]]] = WeakKeyDictionary()

    def of(self, statement: Statement, facts: ModuleFacts) -> set[Silent]:
        """Return the silent ones, to be added to; none where a body was evaluated anew."""
        bodies = tuple(map(facts.body_of, statement.functions))
        known = self._known.get(statement)
        if known is None or known[0] != bodies:
            known = self._known[statement] = (bodies, set[Silent]())
        return known[1]


def _leaving(method: Any) -> Any:
    """Let a method note that its answer is not about the bodies alone."""

    @wraps(method)
    def asked(self: OwnContext, *args: Any) -> Any:
        self.left = True
        return method(self, *args)

    return asked


def _about(method: Any) -> Any:
    """Let a method note when it is asked about a node of somewhere else."""

    @wraps(method)
    def asked(self: OwnContext, node: Any) -> Any:
        if node is not None and node not in self.own:
            self.left = True
        return method(self, node)

    return asked


class OwnContext(Context):
    """What a visitor may ask while it visits bodies; ``left`` tells that it has asked of more than these."""

    def __init__(self, whole: Context, statement: Statement) -> None:
        self.__dict__.update(whole.__dict__)
        self._whole = whole
        self.own = statement.parents
        self.left = False

    @property
    def source(self) -> Source:
        """The text, which is more than the bodies."""
        self.left = True
        return super().source

    @property
    def tree(self) -> ast.Module:
        """The syntax of the text, which is more than the bodies."""
        self.left = True
        return super().tree

    @property
    def facts(self) -> ModuleFacts:
        """What the interpretation has found out about more than the bodies."""
        self.left = True
        return super().facts

    imported_as = _leaving(Context.imported_as)
    callers = _leaving(Context.callers)
    classes = _leaving(Context.classes)
    class_of = _leaving(Context.class_of)
    derived = _leaving(Context.derived)
    nodes = _leaving(Context.nodes)
    mentions = _leaving(Context.mentions)

    value = _about(Context.value)
    call = _about(Context.call)
    grad_enabled = _about(Context.grad_enabled)
    autocast = _about(Context.autocast)
    reached = _about(Context.reached)
    parent = _about(Context.parent)

    def noted(self, derive: Callable[[NodeType, Context], Answer], node: NodeType) -> Answer:
        """Return what is derived from a node: that rests on its function, which may be another statement's."""
        self.left = self.left or node not in self.own
        return self._whole.noted(derive, node)
