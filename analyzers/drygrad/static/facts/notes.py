"""What evaluating a body depended on and left behind, so that its outcome can stand in for evaluating it again."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from drygrad.static.facts.receivers import self_name
from drygrad.static.facts.state import Autocast
from drygrad.static.facts.values import Arguments, Class, Function, Object, Value

if TYPE_CHECKING:
    from drygrad.static.facts.frame import Frame, Recording


Derived = TypeVar("Derived")


@dataclass(frozen=True)
class CallSite:
    """How a function of the file is called somewhere in it."""

    node: ast.expr
    arguments: Arguments
    receiver: Value | None
    grad: bool | None
    autocast: Autocast


@dataclass
class Notes:
    """What one evaluation read of the module, and what it made known to it.

    ``truncated`` says that a limit or a recursion cut it short: its outcome then holds for this version only.
    """

    reads: dict[str, Value] = field(default_factory=dict[str, Value])
    sites: list[tuple[Function, CallSite]] = field(default_factory=list[tuple[Function, CallSite]])
    instances: list[Object] = field(default_factory=list[Object])
    functions: list[tuple[Function, Frame]] = field(default_factory=list[tuple[Function, "Frame"]])
    classes: list[Class] = field(default_factory=list[Class])
    questions: set[str] = field(default_factory=set[str])
    truncated: bool = False

    def add(self, inner: Notes) -> None:
        """Take over what an evaluation within this one noted; definitions stay with the body that they stand in."""
        self.reads.update(inner.reads)
        self.sites.extend(inner.sites)
        self.instances.extend(inner.instances)
        self.questions.update(inner.questions)
        self.truncated = self.truncated or inner.truncated


@dataclass(frozen=True)
class Outcome:
    """What a followed call gave: its result, the attributes that its body assigned, whether it ran a backward."""

    function: Function
    arguments: Arguments
    grad: bool | None
    autocast: Autocast
    result: Value
    names: Mapping[str, Value]
    ran_backward: bool
    notes: Notes

    @cached_property
    def attributes(self) -> Mapping[str, Value]:
        """The attributes that the body assigned to its own object."""
        prefix = f"{self_name(self.function)}."
        return {name.removeprefix(prefix): v for name, v in self.names.items() if name.startswith(prefix)}

    def answers(self, function: Function, arguments: Arguments, grad: bool | None, autocast: Autocast) -> bool:
        """Say whether this is the outcome of such a call."""
        modes = self.grad == grad and self.autocast == autocast
        return modes and self.function == function and self.arguments == arguments


@dataclass(frozen=True, eq=False)
class Body:
    """What evaluating a function's body on its own has found out; a new one each time that it is evaluated."""

    outcome: Outcome
    recording: Recording

    @cached_property
    def dependencies(self) -> tuple[ast.AST, ...]:
        """The functions of the file whose evaluation this one rests on, or holds within."""
        return tuple(dict.fromkeys(self._depends_on()))

    def _depends_on(self) -> Iterator[ast.AST]:
        notes = self.outcome.notes
        yield from (function.node for function, _ in notes.sites)
        yield from (function.node for function, _ in notes.functions)
        classes = {made.cls.node: made.cls for made in notes.instances if made.cls is not None}
        for cls in classes.values():
            init = cls.member("__init__")
            if isinstance(init, Function):
                yield init.node


Ground: TypeAlias = tuple[object, ...]
"""What something derived from a function rests on: evaluations, and whatever else can be compared."""


class Derivations:
    """What rules have derived from functions, kept from version to version while its ground stands."""

    def __init__(self, previous: Derivations | None = None) -> None:
        self._older = previous._entries if previous is not None else {}
        self._entries: dict[object, tuple[Ground | None, Any]] = {}

    def get(self, key: object, ground: Ground | None, derive: Callable[[], Derived]) -> Derived:
        """Return what was derived under a key; derive it where it was not, or (ground None) not in this version."""
        entry = self._entries.get(key)
        if entry is None:
            older = self._older.get(key)
            entry = older if older is not None and ground is not None and older[0] == ground else (ground, derive())
            self._entries[key] = entry
        return entry[1]
