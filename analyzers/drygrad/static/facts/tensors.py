"""Tensors outside of calls: attributes, operators, subscripts, writes in place, moves between devices."""

from __future__ import annotations

import ast
from dataclasses import replace

from drygrad.static.facts import containers, quantities, ranges, shapes, transfer
from drygrad.static.facts.effects import forget_items
from drygrad.static.facts.events import DeviceMismatch, InplaceWrite, ShapeMismatch
from drygrad.static.facts.frame import Frame, dotted_text
from drygrad.static.facts.values import (
    UNKNOWN,
    Arguments,
    Constant,
    Device,
    Dtype,
    Mapped,
    Method,
    Number,
    Origin,
    Quantity,
    Reference,
    Tensor,
    TorchCall,
    Value,
    is_unknown,
)

_VIEW_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "real", "imag"})


def attribute(frame: Frame, tensor: Tensor, name: str, node: ast.expr) -> Value:
    """Return an attribute of a tensor."""
    match name:
        case "shape":
            return containers.sizes(tensor.shape)
        case "device":
            return Device(tensor.device or f"${_owner_text(node)}.device")
        case "dtype":
            return Dtype(tensor.dtype) if tensor.dtype else UNKNOWN
        case "requires_grad":
            return Constant(tensor.requires_grad) if tensor.requires_grad is not None else UNKNOWN
        case "ndim":
            return Number() if tensor.shape is None else Constant(len(tensor.shape))
        case "grad":
            return replace(
                tensor, requires_grad=False, leaf=True, origin=Origin("grad", node), storage=node, range=None
            )
        case "data":
            return replace(tensor, requires_grad=False, leaf=True, cut=node, origin=Origin("data", node, (tensor,)))
        case _ if name in _VIEW_ATTRIBUTES:
            operation = name if name in ("real", "imag") else "transpose"
            made = transfer.make(frame, node, operation, (tensor,), (tensor,))
            return replace(made, shape=shapes.attribute_shape(tensor.shape, name))
        case "is_cuda" | "is_leaf" | "grad_fn" | "names" | "layout" | "is_sparse" | "itemsize" | "nbytes" | "_version":
            return UNKNOWN
        case _:
            return Method(tensor, name)


def _owner_text(node: ast.expr) -> str:
    return (dotted_text(node) or ast.unparse(node)).removesuffix(".device")


def operator(
    frame: Frame, node: ast.expr, operation: str, expressions: tuple[ast.expr, ...], values: tuple[Value, ...]
) -> Value:
    """Return the value of an operator with a tensor on one side at least."""
    if not all(isinstance(v, (Tensor, Constant, Number)) or is_unknown(v) for v in values):
        return UNKNOWN
    tensors = tuple(v for v in values if isinstance(v, Tensor))
    shape = transfer.operator_shape(frame, node, operation, values)
    if any(map(is_unknown, values)):
        shape = None
    made = replace(transfer.make(frame, node, operation, tensors, values), shape=shape)
    known = quantities.of_same_text(operation, expressions, values)
    return made if known is None else replace(made, range=known)


def index(frame: Frame, tensor: Tensor, node: ast.Subscript) -> Tensor:
    """Return ``tensor[...]``."""
    frame.retract(ShapeMismatch, node)
    try:
        shape = shapes.index_shape(tensor.shape, node, frame.evaluate)
    except shapes.Mismatch as mismatch:
        frame.emit(ShapeMismatch(node, "getitem", mismatch.kind, mismatch.message, None, (tensor,)))
        shape = None
    made = transfer.make(frame, node, "getitem", (tensor,), (tensor,))
    storage = tensor.storage if _is_view(frame, node.slice) else None
    device = None if _is_indexed_from_afar(frame, tensor, node) else made.device
    return replace(made, shape=shape, dtype=tensor.dtype, device=device, cut=made.cut or tensor.cut, storage=storage)


def _is_indexed_from_afar(frame: Frame, tensor: Tensor, node: ast.Subscript) -> bool:
    """Report indices on an accelerator into a tensor of the CPU; the other way round they are copied."""
    frame.retract(DeviceMismatch, node)
    if tensor.origin is None or tensor.parameter or tensor.buffer:
        return False  # what belongs to a module moves with it
    for part in node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]:
        index = frame.evaluate(part)
        if not isinstance(index, Tensor) or tensor.device != "cpu" or index.device in (None, "cpu") or not index.shape:
            continue
        assert index.device is not None
        devices, certain = ("cpu", index.device), index.device[0] != "$"
        event = DeviceMismatch(node, "indexing", (node.value, part), devices, (tensor, index), None, certain)
        frame.emit(event)
        return True
    return False


def _is_view(frame: Frame, index: ast.expr) -> bool:
    """Say whether an index surely gives a view: numbers and slices do, tensors and lists give copies."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return all(isinstance(part, ast.Slice) or isinstance(frame.evaluate(part), (Constant, Number)) for part in parts)


def write(
    frame: Frame,
    node: ast.expr | ast.stmt,
    expression: ast.expr,
    operation: str,
    target: Tensor,
    others: tuple[Value, ...],
    call: TorchCall | None = None,
) -> Tensor:
    """Overwrite a tensor in place: note who had kept its content, and return what it is afterwards."""
    saved = frame.state.saved.get(target.storage, ()) if target.storage is not None else ()
    event = InplaceWrite(node, expression, operation, target, saved, frame.state.grad, call)
    frame.emit(event)
    values = (target, *others)
    tensors = tuple(transfer.tensors_in(values))
    place = node if isinstance(node, ast.expr) else expression
    shape = target.shape if call is None else transfer.call_shape(frame, call)
    made = transfer.make(frame, place, operation, tensors, values, call=call, written=target)
    after = replace(made, dtype=target.dtype, device=target.device)
    if not isinstance(shape, shapes.Outputs):
        after = replace(after, shape=shape)
    if frame.state.grad is False:  # the tensor stays what it was to autograd
        after = replace(after, requires_grad=target.requires_grad, leaf=target.leaf)
        if target.parameter or target.requires_grad:
            after = replace(after, origin=target.origin)
    _forget_ranges(frame, target.storage)
    name = dotted_text(expression)
    if name is not None:
        frame.state.names[name] = after
    return after


def _forget_ranges(frame: Frame, storage: object) -> None:
    """Other names of memory that is overwritten see the new content."""
    names = frame.state.names
    for name, value in names.items():
        if isinstance(value, Tensor) and value.range is not None and value.storage is storage:
            names[name] = replace(value, range=None)


def widen_items(frame: Frame, target: ast.Subscript, item: Tensor) -> None:
    """``x[i] += 1``: some elements of x are what the items have become, even where the index made a copy of them."""
    base, name = frame.evaluate(target.value), dotted_text(target.value)
    if not isinstance(base, Tensor) or base.range is None:
        return
    _forget_ranges(frame, base.storage)
    if name is not None and name in frame.state.names:
        known = None if item.range is None else base.range.union(item.range)
        frame.state.names[name] = replace(base, range=known)


def assign_item(frame: Frame, target: ast.Subscript, value: Value) -> None:
    """``x[i] = v``: a write in place where x is a tensor, another entry where it is a dict."""
    base, key = frame.evaluate(target.value), frame.evaluate(target.slice)
    if isinstance(base, Tensor):
        write(frame, target, target.value, "setitem", base, (value,))
        return
    name = dotted_text(target.value)
    if isinstance(base, Mapped) and isinstance(key, Constant) and isinstance(key.value, str) and name is not None:
        frame.state.names[name] = Mapped({**base.entries, key.value: value})
        return
    forget_items(frame, target.value)


def accumulated(frame: Frame, node: ast.AugAssign, left: Value, right: Tensor, operation: str) -> Value:
    """Return what ``total += loss`` makes of a total that is no tensor yet."""
    if not isinstance(left, (Constant, Number, Quantity)):
        return UNKNOWN
    made = transfer.make(frame, node.target, operation, (right,), (left, right))
    if isinstance(left, Quantity):
        return Quantity(made.range, made.origin, made.storage)
    return replace(made, shape=right.shape)


def python_number(node: ast.AugAssign, operation: str, left: Value, right: Value) -> Value:
    """Return what ``n += 1`` makes of a Python number."""
    numeric = (Constant, Number)
    if isinstance(left, numeric) and isinstance(right, numeric):
        return Number(range=ranges.range_of_result(operation, (left, right), None))
    return quantities.computed(node.value, operation, (left, right))


def set_requires_grad(frame: Frame, expression: ast.expr, tensor: Tensor, wanted: Value) -> Tensor:
    """Return what ``tensor.requires_grad = wanted`` makes of a tensor, and let its name stand for that."""
    flag = wanted.value is True if isinstance(wanted, Constant) else None
    changed = replace(tensor, requires_grad=flag, cut=tensor.cut if flag is False else None)
    name = dotted_text(expression)
    if name is not None:
        frame.state.names[name] = changed
    return changed


def forget_graph(frame: Frame) -> None:
    """A backward has run: what it had kept it keeps no longer."""
    frame.state.saved.clear()
    frame.ran_backward = True


# -- devices ----------------------------------------------------------------------------------------------------


def device_name(value: Value) -> str | None:
    """Return the device that a value stands for as an argument; None where it is unknown."""
    if isinstance(value, Device):
        return value.name
    if isinstance(value, Constant):
        if isinstance(value.value, str):
            return value.value if value.value.split(":")[0] in DEVICE_TYPES else None
        if isinstance(value.value, int) and not isinstance(value.value, bool):
            return f"cuda:{value.value}"
    return None


DEVICE_TYPES = frozenset({"cpu", "cuda", "mps", "xpu", "meta", "hpu", "npu", "xla"})


def move(frame: Frame, call: TorchCall, tensor: Tensor, arguments: Arguments) -> Tensor:
    """Return the result of ``.to(...)``, ``.cuda()``, ``.cpu()``, ``.type(...)`` on a tensor."""
    device, dtype = destination(call.operation if call.target != "Tensor.type_as" else "type_as", arguments, tensor)
    made = transfer.make(frame, call.node, "to", (tensor,), (tensor,), call=call)
    moved = replace(made, shape=tensor.shape, device=device, dtype=dtype, cut=tensor.cut, storage=call.node)
    if None not in (device, dtype) and (device, dtype) == (tensor.device, tensor.dtype):
        moved = replace(moved, leaf=tensor.leaf, storage=tensor.storage)
    return replace(moved, leaf=True) if tensor.requires_grad is False else moved


def destination(method: str, arguments: Arguments, current: Tensor) -> tuple[str | None, str | None]:
    """Return the device and dtype that a move leads to."""
    if method == "cpu":
        return "cpu", current.dtype
    if method == "cuda":
        given = arguments.get("device", 0)
        return ("cuda" if given is None else device_name(given)), current.dtype
    if method == "pin_memory":
        return current.device, current.dtype
    device, dtype = current.device, current.dtype
    candidates = [*arguments.positional[:2], arguments.get("device"), arguments.get("dtype"), arguments.get("other")]
    for candidate in candidates:
        match candidate:
            case None | Constant(value=None):
                continue
            case Dtype(name=name):
                dtype = name
            case Tensor():
                device, dtype = candidate.device, candidate.dtype
            case Reference():
                device = dtype = None
            case _ if (name := device_name(candidate)) is not None:
                device = name
            case Constant(value=bool()):
                continue
            case _:
                device = dtype = None
    return device, dtype if arguments.complete else None
