"""Calls of Python's own functions and of list methods, as far as they carry facts."""

from __future__ import annotations

import ast
from dataclasses import replace

from drygrad.static.facts import quantities, transfer
from drygrad.static.facts.effects import forget_items, forget_mutable
from drygrad.static.facts.frame import Frame, dotted_text
from drygrad.static.facts.iteration import element, unpacked
from drygrad.static.facts.values import (
    UNKNOWN,
    Arguments,
    Constant,
    Mapped,
    Number,
    Object,
    ParameterList,
    Sequence,
    Super,
    Tensor,
    Value,
    element_of,
    join,
)

_CHANGES = frozenset({"append", "extend", "insert", "clear", "remove", "sort", "reverse", "pop"})
"""Methods that change the list that they are called on."""


def call(frame: Frame, node: ast.Call, name: str, arguments: Arguments) -> Value:
    """Return the value of a call of a built-in function."""
    first = arguments.positional[0] if arguments.positional else UNKNOWN
    match name:
        case "super":
            return _super(frame)
        case "len":
            return _length(first)
        case "range":
            return Sequence("iterator", None, Number())
        case "enumerate":
            inner = element(frame, first, node)
            return Sequence("iterator", None, Sequence("tuple", (Number(), inner)))
        case "zip" if arguments.complete:
            items = tuple(element(frame, value, node) for value in arguments.positional)
            return Sequence("iterator", None, Sequence("tuple", items))
        case "list" | "tuple" | "reversed" | "sorted" | "iter" | "set":
            return _as_sequence(name, first)
        case "next":
            return _first_parameter(first) if isinstance(first, ParameterList) else element(frame, first, node)
        case "abs" | "round" if isinstance(first, Tensor):
            return replace(transfer.make(frame, node, name, (first,), (first,)), shape=first.shape)
        case "abs" | "max" | "min" if (found := quantities.of_builtin(node, name, arguments.positional)) is not UNKNOWN:
            return found
        case "sum" if isinstance(first, (Sequence, Tensor)):
            return _total(frame, node, first, arguments)
        case "int" | "float" | "round" | "abs" | "bool":
            number = _number(first)
            return number if name in ("float", "abs") else replace(number, range=None)
        case "isinstance" | "hasattr" | "print" | "id" | "type" | "str" | "repr" | "callable":
            return UNKNOWN
        case _:
            forget_mutable(frame, node)
            return UNKNOWN


def _super(frame: Frame) -> Value:
    function = frame.function
    if function is None or function.owner is None or function.receiver is None:
        return UNKNOWN
    return Super(function.owner, function.receiver)


def _first_parameter(parameters: ParameterList) -> Value:
    """``next(model.parameters())`` is asked for the device or dtype of a model."""
    module = parameters.module
    named = parameters.kind.startswith("named")
    return Tensor(dtype=module.dtype, device=module.device) if isinstance(module, Object) and not named else UNKNOWN


def _length(value: Value) -> Value:
    if isinstance(value, Sequence) and value.items is not None:
        return Constant(len(value.items))
    if isinstance(value, Tensor) and value.shape and isinstance(value.shape[0], int):
        return Constant(value.shape[0])
    return Number()


def _total(frame: Frame, node: ast.Call, terms: Value, arguments: Arguments) -> Value:
    """``sum(losses)`` adds tensors to 0, one after another."""
    term = element_of(terms) if isinstance(terms, Sequence) else unpacked(terms)
    if not isinstance(term, Tensor) or arguments.get("start", 1) not in (None, Constant(0)):
        return UNKNOWN
    return replace(transfer.make(frame, node, "add", (term,), (term, Constant(0))), shape=term.shape, range=None)


def _as_sequence(name: str, value: Value) -> Value:
    if not isinstance(value, Sequence):
        return UNKNOWN
    kind = "tuple" if name == "tuple" else "list"
    if name in ("sorted", "set", "reversed"):
        return Sequence(kind, None, element_of(value))
    return Sequence(kind, value.items, value.element)


def _number(value: Value) -> Number:
    """``float(loss)`` takes a number out of the graph as ``loss.item()`` does."""
    if isinstance(value, Tensor):
        return quantities.number(value, value.origin, value.origin.node if value.origin else None)
    return value if isinstance(value, Number) else Number()


def sequence_method(frame: Frame, expression: ast.expr, sequence: Sequence, name: str, arguments: Arguments) -> Value:
    """Return the value of a list's method, and change what is known of the list that the expression names."""
    target = dotted_text(expression)
    if target is None and name in _CHANGES:
        forget_items(frame, expression)
    if name in ("append", "extend", "insert") and arguments.positional and target is not None:
        added = arguments.positional[-1]
        if name == "extend":
            added = element_of(added) if isinstance(added, Sequence) else UNKNOWN
        empty = sequence.items == ()
        frame.bind(target, Sequence(sequence.kind, None, added if empty else join(element_of(sequence), added)))
    elif name in ("clear", "remove", "sort", "reverse") and target is not None:
        frame.bind(target, Sequence(sequence.kind, None, element_of(sequence)))
    elif name == "pop":
        if target is not None:
            frame.bind(target, Sequence(sequence.kind, None, element_of(sequence)))
        return element_of(sequence)
    elif name == "copy":
        return sequence
    return UNKNOWN


def dict_method(frame: Frame, expression: ast.expr, mapped: Mapped, name: str, arguments: Arguments) -> Value:
    """Return the value of a dict's method; what may change the dict makes its entries unknown."""
    key = arguments.positional[0] if arguments.positional else UNKNOWN
    if name == "get" and isinstance(key, Constant) and isinstance(key.value, str) and key.value in mapped.entries:
        return mapped.entries[key.value]
    if name not in ("get", "keys", "values", "items", "copy"):
        forget_items(frame, expression)
    return mapped if name == "copy" else UNKNOWN
