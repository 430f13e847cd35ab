"""Calls as the model of torch describes them: which operation, which argument under which name, of what kind."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from drygrad.static.facts.parameters import has_parameters
from drygrad.static.facts.values import UNKNOWN, Constant, Dtype, Number, Sequence, Tensor, TorchCall, Value
from drygrad.torchmodel import operations
from drygrad.torchmodel.record import Op

_WORD = re.compile(r"[a-z_-]+")
_LISTS = frozenset({"tensors", "operands", "size", "shape", "dims", "repeats"})
"""Arguments that may be given one by one."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A call, or an operator: the operation, its arguments by name, and of what kind each is."""

    op: Op
    arguments: Mapping[str, Value]
    form: Mapping[str, str]
    hides_parameters: bool = False
    """Whether a module calls it, and may do so with parameters of its own, which are not among the arguments."""

    def argument(self, name: str) -> Value | None:
        """Return an argument, or the item of one: ``tensors.1``; None: there is none, UNKNOWN: there may be."""
        name, _, index = name.partition(".")
        value = self.arguments.get(name)
        if not index or value is None:
            return value
        if not isinstance(value, Sequence):
            return UNKNOWN
        if value.items is None:
            return value.element
        return value.items[int(index)] if int(index) < len(value.items) else None


def asked(operation: str, values: tuple[Value, ...], call: TorchCall | None) -> Asked | None:
    """Return a call as the model of torch describes it; None where torch has not told it, or not in this form."""
    op, values = _operator(operation, values) if call is None else (_called(operation, call), values)
    arguments = _bound(op, values, call) if op is not None else None
    if op is None or arguments is None:
        return None
    form = {name: kind_of(value) for name, value in arguments.items()}
    form |= {f"#{n}": str(len(v.shape)) if v.shape is not None else "?" for n, v in _tensors(arguments)}
    hides = call is not None and call.module is not None and has_parameters(call.module) is not False
    return Asked(op, arguments, form, hides) if op.was_tried(form) else None


def of_hidden_form(operation: str, call: TorchCall) -> Op | None:
    """Return the operation of a call some of whose arguments are hidden; None of any other call."""
    return _called(operation, call) if call.form != "operator" and hides_arguments(call.node) else None


def _called(operation: str, call: TorchCall) -> Op | None:
    exact = operations.named(call.target) if call.form != "module" else None
    return exact or operations.named(operation)


def _operator(operation: str, values: tuple[Value, ...]) -> tuple[Op | None, tuple[Value, ...]]:
    """Return what an operator calls: ``2 / x`` is a method of x."""
    reflected = operations.named(f"__r{operation}__") if isinstance(values[0], (Constant, Number)) else None
    return (operations.named(operation), values) if reflected is None else (reflected, values[::-1])


def _tensors(arguments: Mapping[str, Value]) -> Iterator[tuple[str, Tensor]]:
    return ((name, value) for name, value in arguments.items() if isinstance(value, Tensor))


def _bound(op: Op, values: tuple[Value, ...], call: TorchCall | None) -> dict[str, Value] | None:
    """Return the arguments of a call by name; None where ``*args`` or ``**kwargs`` hide some."""
    if call is not None and call.form != "operator" and hides_arguments(call.node):
        return None
    names = op.method_signature if call is None or call.form == "method" else op.signature
    found = dict(zip(names, _gathered(op, names, values), strict=False))
    if call is not None:
        found |= {op.canonical(name): value for name, value in call.keyword_values.items()}
        if call.module is not None:
            found |= _constructed(op, call, found)
    return found


def _gathered(op: Op, names: tuple[str, ...], values: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return the values with those that make one list together: ``einsum("ij,jk", a, b)``, ``x.view(2, 3)``."""
    at = next((index for index, name in enumerate(names) if name in _LISTS), len(values))
    if at >= len(values) or isinstance(values[at], Sequence):
        return values
    several = len(values) > len(names)
    alone = names[at] in ("tensors", "operands") and not op.takes(names[at], "T")
    return (*values[:at], Sequence("tuple", values[at:])) if several or alone else values


def hides_arguments(node: ast.Call) -> bool:
    """Say whether a call passes arguments that it does not show."""
    return any(k.arg is None for k in node.keywords) or any(isinstance(a, ast.Starred) for a in node.args)


def _constructed(op: Op, call: TorchCall, given: Mapping[str, Value]) -> dict[str, Value]:
    """Return what a module's constructor was given for its operation; its tensors are not among that."""
    assert call.module is not None
    arguments = call.module.arguments
    named = {**dict(zip(call.module_signature, arguments.positional, strict=False)), **arguments.keywords}
    taken = {*op.signature, *op.row.get("defaults", {})} - given.keys()
    switches = (Constant(True), Constant(False))
    return {
        name: value
        for name, value in named.items()
        if name in taken and not (name in ("weight", "bias") and value in switches)
    }


def kind_of(value: Value) -> str:
    """Return the kind of an argument, as `drygrad.torchmodel.record` writes it."""
    match value:
        case Tensor():
            return "T"
        case Constant(value=None):
            return "-"
        case Constant(value=bool() | str() as mode):
            return repr(mode) if isinstance(mode, bool) or _WORD.fullmatch(mode) else "O"
        case Number() | Constant(value=int() | float() | complex()):
            return "N"
        case Dtype():
            return "D"
        case Sequence(items=tuple() as items):
            kinds = {kind_of(item) for item in items}
            return "L" if "T" in kinds else "?" if "?" in kinds else "S"
        case Sequence(element=element):
            return {"T": "L", "N": "S"}.get(kind_of(element), "?")
        case _:
            return "?"


def flat(values: Iterable[Value]) -> Iterable[Value]:
    """Yield values, those in lists in place of the lists."""
    for value in values:
        if isinstance(value, Sequence):
            yield from flat(value.items if value.items is not None else (value.element,))
        else:
            yield value
