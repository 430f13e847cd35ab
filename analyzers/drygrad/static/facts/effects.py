"""What code that is not followed may change."""

from __future__ import annotations

import ast
from dataclasses import replace

from drygrad.static.facts.frame import Frame, dotted_text
from drygrad.static.facts.transfer import tensors_in
from drygrad.static.facts.values import UNKNOWN, Arguments, Mapped, Object, Sequence, Tensor, Value


def forget_mutable(frame: Frame, node: ast.Call) -> None:
    """What unknown code is given it may change: the items of a list or dict, a module's device and mode.

    Code named as what works in place (``quantize_``) may replace or freeze parameters, too.
    """
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
        name = dotted_text(argument)
        value = frame.look_up(name) if name and "." not in name else UNKNOWN
        if name is None or value is UNKNOWN:
            continue
        if isinstance(value, Mapped) or (isinstance(value, Sequence) and value.kind == "list"):
            frame.bind(name, UNKNOWN)
        elif isinstance(value, Object) and value.is_module:
            changed = called.endswith("_") or value.frozen
            frame.state.names[name] = replace(value, device=None, training=None, frozen=changed)


def forget_items(frame: Frame, container: ast.expr) -> None:
    """What a list or dict holds has changed in a way that is not followed: forget it, and what it is an item of."""
    while isinstance(container, ast.Subscript):
        container = container.value
    name = dotted_text(container)
    if name is not None and frame.evaluate(container) is not UNKNOWN:
        frame.bind(name, UNKNOWN)


def given_back(frame: Frame, result: Value, arguments: Arguments, node: ast.expr) -> Value:
    """Return what a followed call returns: in new memory at every call, unless it is an argument's."""
    shared = {id(tensor.storage) for tensor in tensors_in((*arguments.positional, *arguments.keywords.values()))}
    match result:
        case Tensor(storage=ast.AST() as storage) if id(storage) not in shared:
            frame.state.saved.pop(node, None)
            return replace(result, storage=node)
        case Sequence(items=tuple(items)):
            return replace(result, items=tuple(_without_place(item, shared) for item in items))
        case Sequence():
            return replace(result, element=_without_place(result.element, shared))
        case _:
            return result


def _without_place(value: Value, shared: set[int]) -> Value:
    if isinstance(value, Tensor) and isinstance(value.storage, ast.AST) and id(value.storage) not in shared:
        return replace(value, storage=None)
    return value
