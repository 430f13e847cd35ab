"""Objects of torch's classes: modules and their calls, loaders and their batches, optimizers, devices of modules."""

from __future__ import annotations

import ast
from dataclasses import replace

from drygrad.static.facts import tensors, transfer
from drygrad.static.facts.effects import forget_mutable
from drygrad.static.facts.frame import Event, Frame, dotted_text
from drygrad.static.facts.iteration import contained_modules
from drygrad.static.facts.operations import CASTS, CONSTRUCTORS, MODULE_OPERATIONS, PARAMETERLESS, SIGNATURES
from drygrad.static.facts.quantities import as_tensor
from drygrad.static.facts.values import (
    UNKNOWN,
    Arguments,
    Constant,
    Function,
    Object,
    ParameterList,
    Tensor,
    TorchCall,
    Value,
    is_unknown,
)

_CHANGES_MODULE = frozenset({"to", "cuda", "cpu", "train", "eval", "requires_grad_", *CASTS})
_WRAPPERS = frozenset({"torch.nn.DataParallel", "torch.nn.parallel.DistributedDataParallel"})
"""Modules that send their inputs to the device of the module that they hold."""
_CHANGES_PARTS = frozenset({"append", "add_module", "register_module", "extend", "insert", "pop"})
_PARAMETER_METHODS = frozenset({"parameters", "named_parameters", "buffers", "named_buffers"})


def construct(frame: Frame, node: ast.Call, name: str, arguments: Arguments) -> Object:
    """Return a new module of torch's."""
    device = arguments.get("device")
    placed = frame.module.default_device if device is None else tensors.device_name(device)
    if name.rpartition(".")[2] in PARAMETERLESS or name in _WRAPPERS:
        placed = None
    if name == "torch.nn.Sequential":
        placed = _shared_device(arguments, placed)
    return Object(name, node, arguments, device=placed)


def _shared_device(arguments: Arguments, default: str | None) -> str | None:
    parts = {v.device for v in arguments.positional if isinstance(v, Object) and v.device is not None}
    if not parts:
        return default
    return parts.pop() if len(parts) == 1 else None


def call(frame: Frame, node: ast.Call, target: Object, arguments: Arguments, *, inside: bool = False) -> Value:
    """Return what calling an object gives: a module's forward.

    ``inside`` says that the module stands inside an ``nn.Sequential`` and takes what its predecessor made.
    """
    if target.cls is not None:
        return _call_own(frame, node, target, arguments)
    name = target.type.rpartition(".")[2]
    if target.type == "torch.nn.Sequential":
        return _call_sequential(frame, node, target, arguments, inside)
    if target.type.startswith("torch.nn.") and name in MODULE_OPERATIONS:
        torch_call = _module_call(node, target, name, arguments)
        if inside:
            torch_call = replace(torch_call, operands=())
        frame.record_call(torch_call)
        return _run(frame, torch_call, arguments)
    if target.type in _WRAPPERS:
        inner = target.arguments.get("module", 0)
        return call(frame, node, replace(inner, device=None), arguments) if isinstance(inner, Object) else UNKNOWN
    return UNKNOWN


def _call_own(frame: Frame, node: ast.Call, target: Object, arguments: Arguments) -> Value:
    """A module of the file: its forward is followed."""
    name = "forward" if target.is_module else "__call__"
    member = target.cls.member(name) if target.cls is not None else None
    if not isinstance(member, Function):
        return UNKNOWN
    return frame.module.follow(frame, replace(member, receiver=target), arguments, node)


def _module_call(node: ast.Call, target: Object, name: str, arguments: Arguments) -> TorchCall:
    operation = MODULE_OPERATIONS[name]
    signature = SIGNATURES.get(operation, ("input",))
    if operation.endswith("_loss") or operation in ("cross_entropy", "kl_div") or "binary_cross" in operation:
        signature = signature[:2]
    else:
        signature = signature[:1]
    inplace = target.arguments.get("inplace", _position("inplace", name))
    return TorchCall(
        node,
        operation,
        target.type,
        "module",
        tuple(a for a in node.args if not isinstance(a, ast.Starred)),
        arguments.positional,
        {k.arg: k.value for k in node.keywords if k.arg is not None},
        arguments.keywords,
        signature,
        target,
        CONSTRUCTORS.get(name, ()),
        isinstance(inplace, Constant) and inplace.value is True,
    )


def _position(parameter: str, constructor: str) -> int | None:
    names = CONSTRUCTORS.get(constructor, ())
    return names.index(parameter) if parameter in names else None


def _run(frame: Frame, torch_call: TorchCall, arguments: Arguments) -> Value:
    if torch_call.values and is_unknown(torch_call.values[0]):
        torch_call = replace(torch_call, values=(as_tensor(torch_call.values[0]), *torch_call.values[1:]))
    first = torch_call.values[0] if torch_call.values else UNKNOWN
    if torch_call.inplace and isinstance(first, Tensor) and torch_call.operands:
        return tensors.write(
            frame, torch_call.node, torch_call.operands[0], torch_call.operation, first, (), torch_call
        )
    if torch_call.operation == "identity":
        return first
    return transfer.result_of(frame, torch_call)


def _call_sequential(frame: Frame, node: ast.Call, target: Object, arguments: Arguments, inside: bool) -> Value:
    """Send a value through the modules of an ``nn.Sequential``, each on the device of the whole."""
    parts = contained_modules(target)
    if parts is None or parts.items is None:
        return Tensor() if arguments.positional else UNKNOWN
    value = arguments.positional[0] if arguments.positional else UNKNOWN
    mismatches: list[Event] = []
    for index, part in enumerate(parts.items):
        if not isinstance(part, Object):
            return UNKNOWN
        moved = replace(part, device=target.device, frozen=part.frozen or target.frozen)
        value = call(frame, node, moved, Arguments((value,)), inside=inside or index > 0)
        value = _between_parts(frame, value, node, index)
        mismatches += frame.take_mismatches(node)
    for mismatch in reversed(mismatches):
        frame.emit(mismatch)
    return value


def _between_parts(frame: Frame, value: Value, node: ast.Call, index: int) -> Value:
    """Tell the results of the parts apart: all are made by the one call in the text."""
    if not isinstance(value, Tensor) or value.storage is not node:
        return value
    place = (node, index)
    frame.state.saved[place] = frame.state.saved.pop(node, ())
    return replace(value, storage=place)


# -- methods ----------------------------------------------------------------------------------------------------


def object_attribute(owner: Object, name: str) -> Value | None:
    """Return an attribute of an object of a library class; None where nothing tells."""
    if owner.type.startswith("torch.nn.") and name in ("weight", "bias") and owner.is_module:
        return Tensor(
            dtype=owner.dtype,
            device=owner.device,
            requires_grad=None if owner.frozen else True,
            leaf=True,
            storage=(owner.node, name),
            parameter=True,
        )
    return None


def method(
    frame: Frame, node: ast.Call, expression: ast.expr, receiver: Object, name: str, arguments: Arguments
) -> Value:
    """Return the value of a method of an object whose class the file does not show."""
    if receiver.is_module and name in _CHANGES_MODULE:
        return _change(frame, expression, receiver, name, arguments)
    if receiver.is_module and name in _PARAMETER_METHODS:
        return ParameterList(receiver, name)
    if receiver.is_module and name == "register_buffer":
        return _register(frame, expression, arguments, buffer=True)
    if receiver.is_module and name == "register_parameter":
        return _register(frame, expression, arguments, buffer=False)
    if receiver.type.endswith("GradScaler") and name == "scale" and arguments.positional:
        return arguments.positional[0]
    if receiver.type == "torch.nn.Sequential" and name in _CHANGES_PARTS:
        rebind(frame, expression, replace(receiver, arguments=Arguments(complete=False)))
    forget_mutable(frame, node)
    return UNKNOWN


def rebind(frame: Frame, expression: ast.expr, value: Value) -> None:
    """Let the name that an expression is stand for a changed value."""
    name = dotted_text(expression)
    if name is not None:
        frame.state.names[name] = value


def _change(frame: Frame, expression: ast.expr, receiver: Object, name: str, arguments: Arguments) -> Object:
    """Modules change in place and return themselves."""
    match name:
        case "train":
            mode = arguments.get("mode", 0) or Constant(True)
            changed = replace(receiver, training=bool(mode.value) if isinstance(mode, Constant) else None)
        case "eval":
            changed = replace(receiver, training=False)
        case "requires_grad_":
            wanted = arguments.get("requires_grad", 0)
            changed = replace(receiver, frozen=wanted is not None)
        case _ if name in CASTS:
            changed = replace(receiver, dtype=CASTS[name])
        case _:
            device, dtype = tensors.destination(name, arguments, Tensor(device=receiver.device, dtype=receiver.dtype))
            changed = replace(receiver, device=device, dtype=dtype)
    rebind(frame, expression, changed)
    return changed


def _register(frame: Frame, expression: ast.expr, arguments: Arguments, *, buffer: bool) -> Value:
    """``self.register_buffer("mask", tensor)`` binds ``self.mask``."""
    name, value = arguments.get("name", 0), arguments.get("tensor" if buffer else "param", 1)
    if value is None and not buffer:
        value = arguments.get("parameter")  # as a class of a library that has its own calls it
    owner = dotted_text(expression)
    if owner is not None and isinstance(name, Constant) and isinstance(name.value, str):
        held = replace(value, buffer=True) if buffer and isinstance(value, Tensor) else value
        frame.attribute_owners.add(owner.split(".")[0])
        frame.bind(f"{owner}.{name.value}", held if held is not None else UNKNOWN)
    return Constant(None)
