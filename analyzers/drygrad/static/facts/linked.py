"""Other files of the project: their functions and classes, to be followed as those of the file that is looked at."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from drygrad.static.facts.frame import Frame
from drygrad.static.facts.values import (
    UNKNOWN,
    Choice,
    Class,
    Function,
    Number,
    Object,
    Origin,
    Quantity,
    Reference,
    Sequence,
    Tensor,
    Value,
)

if TYPE_CHECKING:
    from drygrad.static.facts.other_file import OtherFile

FIRST_LINE = 100_000_000
"""Lines of other files count from here, so that none of their nodes is taken for one of the file that is looked at."""
_BUILTINS = frozenset(dir(builtins))


class Links(Protocol):
    """What is known of other files. Two files' facts rest on the same of them where the ``version`` is equal."""

    @property
    def version(self) -> object:
        """What tells one state of the other files from another."""
        ...

    @property
    def leads(self) -> bool:
        """Whether any name leads anywhere."""
        ...

    @property
    def setters(self) -> frozenset[str]:
        """The functions that the packages around the file call to change torch's defaults."""
        ...

    def find(self, name: str) -> Value | None:
        """Return the function or class that an imported name stands for; None where nobody has told."""
        ...


class LinkedScope(Mapping[str, Value]):
    """The names around a function of another file: those of that file, and no others."""

    def __init__(self, facts: OtherFile, local: Mapping[str, Value] | None = None) -> None:
        self.facts = facts
        self.local = local or {}

    def within(self, local: Mapping[str, Value]) -> LinkedScope:
        """Return the names around a function that stands in another one."""
        return LinkedScope(self.facts, {**self.local, **local})

    def __getitem__(self, name: str) -> Value:
        """Return what a name means there."""
        known = self.local.get(name) or self.facts.globals.get(name)
        if known is not None:
            return known
        return Reference(f"builtins.{name}") if name in _BUILTINS else UNKNOWN

    def __contains__(self, name: object) -> bool:
        """Say that a name is not to be looked for elsewhere."""
        return True

    def __iter__(self) -> Iterator[str]:
        """Yield the names that are bound."""
        return iter({**self.facts.globals, **self.local})

    def __len__(self) -> int:
        """Return their number."""
        return len({**self.facts.globals, **self.local})


def is_elsewhere(node: ast.AST) -> bool:
    """Say whether a node stands in another file."""
    return getattr(node, "lineno", 0) >= FIRST_LINE


def names_around(scope: object) -> Mapping[str, Value] | None:
    """Return the names that a function sees besides its own and those of the file that is looked at."""
    match scope:
        case LinkedScope():
            return scope
        case Frame(scope=LinkedScope() as outer):
            return outer if scope.function is None else outer.within(scope.state.names)
        case Frame():
            return {**(scope.scope or {}), **scope.state.names}
        case _:
            return None


def home_of(defined: Class | Function) -> OtherFile | None:
    """Return the other file that a class or function stands in; None for one of the file that is looked at."""
    if isinstance(defined, Function):
        return defined.scope.facts if isinstance(defined.scope, LinkedScope) else None
    if not is_elsewhere(defined.node):
        return None
    functions = (member for member in defined.members.values() if isinstance(member, Function))
    return next((home for home in map(home_of, functions) if home is not None), None)


_DEEPEST = 6
"""Operations behind a value that are kept with it; rules ask for no more than a few."""


def anchored(value: Value, call: ast.expr | None, deepest: int = _DEEPEST) -> Value:
    """Return what a value of another file is here: what was computed there, the call has made (None: nobody here)."""
    match value:
        case Tensor():
            storage = value.storage
            return replace(
                value,
                origin=_origin(value.origin, call, deepest),
                cut=_node(value.cut, call),
                storage=call if isinstance(storage, ast.AST) and is_elsewhere(storage) else storage,
            )
        case Number():
            return replace(value, origin=_origin(value.origin, call, deepest), cut=_node(value.cut, call))
        case Quantity():
            return replace(value, origin=_origin(value.origin, call, deepest))
        case Object():
            return replace(value, node=_node(value.node, call))
        case Sequence(items=tuple(items)):
            return replace(value, items=tuple(anchored(item, call, deepest) for item in items))
        case Sequence():
            return replace(value, element=anchored(value.element, call, deepest))
        case Choice():
            return Choice(tuple(anchored(option, call, deepest) for option in value.options))
        case _:
            return value


def _node(node: ast.expr | None, call: ast.expr | None) -> ast.expr | None:
    return call if node is not None and is_elsewhere(node) else node


def _origin(origin: Origin | None, call: ast.expr | None, deepest: int) -> Origin | None:
    if origin is None or not is_elsewhere(origin.node):
        return origin
    if call is None or deepest == 0:
        return None
    operands = tuple(anchored(operand, call, deepest - 1) for operand in origin.operands)
    return Origin(origin.operation, call, operands)
