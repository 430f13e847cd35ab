"""One pass over one body (a module's, a function's): what all evaluators of it share."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from drygrad.static.facts.events import DeviceMismatch, InplaceWrite, ShapeMismatch
from drygrad.static.facts.state import State, join_states
from drygrad.static.facts.values import UNKNOWN, Class, Function, Method, Quantity, TorchCall, Value, join

if TYPE_CHECKING:
    from drygrad.static.facts.module import ModuleFacts

Event = InplaceWrite | DeviceMismatch | ShapeMismatch


class Recording:
    """What the passes over the bodies of a file have found out, by node."""

    def __init__(self) -> None:
        self.values: dict[ast.expr, Value] = {}
        self.quantities: dict[ast.expr, Quantity] = {}
        self.calls: dict[ast.expr, TorchCall] = {}
        self.grad: dict[ast.AST, bool | None] = {}
        self.autocast: dict[ast.AST, str | None] = {}
        self.events: dict[tuple[type, ast.AST], Event] = {}

    def add(self, other: Recording) -> None:
        """Take over what another pass has found out."""
        self.values.update(other.values)
        self.quantities.update(other.quantities)
        self.calls.update(other.calls)
        self.grad.update(other.grad)
        self.autocast.update(other.autocast)
        self.events.update(other.events)


class Frame:
    """The evaluation of one body with given arguments.

    ``recording`` is None where a call is followed only for its result; then nothing is noted of its nodes.
    """

    def __init__(
        self,
        module: ModuleFacts,
        state: State,
        *,
        scope: Mapping[str, Value] | None = None,
        function: Function | None = None,
        recording: Recording | None = None,
        depth: int = 0,
    ) -> None:
        self.module = module
        self.state = state
        self.scope = scope
        self.function = function
        self.recording = recording
        self.depth = depth
        self.result: Value | None = None
        self.exit_state: State | None = None
        self.breaks: list[State] = []
        self.continues: list[State] = []
        self.loops = 0
        self.in_class_body = False
        self.ran_backward = False
        self.attribute_owners: set[str] = set()

    def retire(self) -> None:
        """Let go of the file: functions defined here keep the frame for its names, in version after version."""
        del self.module

    @property
    def owner(self) -> Class | None:
        """The class whose method is evaluated."""
        return self.function.owner if self.function else None

    def evaluate(self, node: ast.expr) -> Value:
        """Return and note the value of an expression."""
        return self.module.evaluate(self, node)

    def look_up(self, name: str) -> Value:
        """Return what a name means here: local, of the enclosing functions, of the module, built in."""
        if name in self.state.names:
            return self.state.names[name]
        if self.scope is not None and name in self.scope:
            return self.scope[name]
        value = self.module.look_up(name)
        self.module.notes.reads[name] = value
        return value

    def bind(self, name: str, value: Value) -> None:
        """Assign a name; attributes assigned through its old value are forgotten."""
        names = self.state.names
        if name in self.attribute_owners:
            prefix = name + "."
            for attribute in [known for known in names if known.startswith(prefix)]:
                del names[attribute]
        names[name] = value

    def record(self, node: ast.expr, value: Value) -> Value:
        """Note the value of an expression; in a loop a later pass, which knows all ways in, overwrites the first."""
        if self.recording is not None:
            self._record(self.recording, node, value)
        return value

    @staticmethod
    def _record(recording: Recording, node: ast.expr, value: Value) -> None:
        """To rules, what is of unknown type is unknown, and so is what a method is called on."""
        kind = type(value)
        if kind is Quantity:
            recording.quantities[node] = cast("Quantity", value)
            recording.values.pop(node, None)
            return
        recording.quantities.pop(node, None)
        if value is UNKNOWN:
            recording.values.pop(node, None)
        elif kind is Method and isinstance(cast("Method", value).receiver, Quantity):
            recording.values[node] = Method(UNKNOWN, cast("Method", value).name)
        else:
            recording.values[node] = value

    def record_call(self, call: TorchCall) -> None:
        """Note a torch call and the modes that it runs under."""
        if self.recording is not None:
            self.recording.calls[call.node] = call
            self.record_modes(call.node)

    def record_modes(self, node: ast.AST) -> None:
        """Note the grad mode and autocast at a node."""
        if self.recording is not None:
            self.recording.grad[node] = self.state.grad
            self.recording.autocast[node] = self.state.autocast

    def emit(self, event: Event) -> None:
        """Note an event; of several passes over a node the last one counts."""
        if self.recording is not None:
            self.recording.events[type(event), event.node] = event

    def retract(self, kind: type[Event], node: ast.AST) -> None:
        """Forget an event that a later pass over its node does not see any more."""
        if self.recording is not None:
            self.recording.events.pop((kind, node), None)

    def take_mismatches(self, node: ast.AST) -> list[Event]:
        """Take back what was noted of sizes and devices that cannot meet at a node."""
        events = self.recording.events if self.recording is not None else {}
        taken = [events.pop((kind, node), None) for kind in (DeviceMismatch, ShapeMismatch)]
        return [event for event in taken if event is not None]

    def take_events(self, node: ast.expr) -> list[Event]:
        """Take back all that was noted to happen at a node."""
        write = self.recording.events.pop((InplaceWrite, node), None) if self.recording is not None else None
        return [*self.take_mismatches(node), *([write] if write is not None else [])]

    def take_call(self, node: ast.expr) -> TorchCall | None:
        """Take back the torch call that was noted at a node."""
        return self.recording.calls.pop(node, None) if self.recording is not None else None

    def begin(self, node: ast.expr) -> None:
        """Forget what an earlier pass has noted of a call or an operator: what it was called on may now be unknown."""
        if self.recording is not None:
            self.recording.calls.pop(node, None)
            for kind in (DeviceMismatch, InplaceWrite, ShapeMismatch):
                self.recording.events.pop((kind, node), None)

    def leave(self, value: Value) -> None:
        """Return from the body."""
        self.result = value if self.result is None else join(self.result, value)
        self.exit_state = join_states(self.exit_state, self.state)


def dotted_text(node: ast.expr) -> str | None:
    """Return ``a.b.c`` as text where an expression is a plain chain of names; else None."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    parts.append(node.id)
    return ".".join(reversed(parts))
