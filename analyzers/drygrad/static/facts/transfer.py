"""What a torch operation makes of its operands: shape, dtype, device, gradient, range, and what it saves."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace

from drygrad.static.facts import ranges, saving, shapes
from drygrad.static.facts.dtypes import result_dtype
from drygrad.static.facts.events import DeviceMismatch, ShapeMismatch
from drygrad.static.facts.forms import Asked, asked, flat, of_hidden_form
from drygrad.static.facts.frame import Frame
from drygrad.static.facts.operations import (
    COPIES_IF_SCATTERED,
    SCATTERS,
    VIEWS,
)
from drygrad.static.facts.parameters import has_parameters
from drygrad.static.facts.quantities import as_tensor
from drygrad.static.facts.recording import never_recorded, requires_grad
from drygrad.static.facts.values import (
    UNKNOWN,
    Object,
    Origin,
    Quantity,
    Sequence,
    Shape,
    Tensor,
    TorchCall,
    Value,
    element_of,
    told_apart,
)
from drygrad.torchmodel.judgements import PAIRS, UNTOLD

KEEPS_DEVICE_APART = frozenset(
    "to cuda cpu copy type getitem setitem index_put move expand_as view_as reshape_as broadcast_tensors tensor_split "
    "ctc_loss multi_head_attention_forward".split()
)
"""Operations that may take tensors of several devices."""
_NEEDS_DIMENSIONS = frozenset(
    "cat stack hstack vstack linear conv1d conv2d conv3d matmul mm bmm embedding cross_entropy nll_loss softmax "
    "layer_norm batch_norm group_norm".split()
)
"""Operations that a CPU tensor without dimensions cannot join from another device either."""
_FILLED = frozenset("batch zeros ones empty rand randn randint arange linspace eye randperm tril triu".split())
"""Origins whose tensors have dimensions, as good as always."""
_ELEMENTWISE = frozenset(
    "add sub mul div pow neg abs exp log sqrt sigmoid tanh relu softmax log_softmax clamp to cpu float half double "
    "long bool triu tril unsqueeze dropout".split()
)


def result_of(frame: Frame, call: TorchCall) -> Value:
    """Return the result of a call on tensors, reporting what cannot work."""
    shape = call_shape(frame, call)
    known = asked(call.operation, call.values, call)
    made = _make(frame, call.node, call.operation, _tensors(call), call.values, known, call=call)
    if call.module is not None:
        made = _through_parameters(frame, made, call.module)
    saving.note_saved(frame, call.node, call.operation, known, made, call)
    return _shaped(_structure(frame, call, made, known) or made, shape)


def _shaped(value: Value, shape: shapes.Result) -> Value:
    """Return one output, or several, with the shapes told of them."""
    if not isinstance(shape, shapes.Outputs):
        return replace(value, shape=shape) if isinstance(value, Tensor) else value
    element = element_of(value) if isinstance(value, Sequence) else value
    parts = value.items if isinstance(value, Sequence) and value.items else [told_apart(element) for _ in shape]
    if len(parts) != len(shape):
        return value
    return Sequence("tuple", tuple(_shaped(part, each) for part, each in zip(parts, shape, strict=True)))


def _structure(frame: Frame, call: TorchCall, made: Tensor, known: Asked | None) -> Value | None:
    """Return what an operation gives where that is not one tensor, shapes unknown; None where it is."""
    hidden = of_hidden_form(call.operation, call)
    if call.operation in UNTOLD or (hidden is not None and hidden.structure_of_all() != "tensor"):
        return UNKNOWN
    if call.operation == "where" and len(call.values) == 1:
        return Sequence("tuple", None, made) if hidden is None else UNKNOWN
    if call.operation in PAIRS:
        return Sequence(
            "tuple",
            (made, Sequence("tuple", (told_apart(made), told_apart(made))) if call.operation == "lstm" else made),
        )
    said = known.op.structure(known.form) if known is not None else None
    if known is None or said is None or said == "tensor":
        return None if known is None or said == "tensor" else UNKNOWN
    if said == "many":
        return Sequence("tuple", None, made if _alike(known) else Tensor())
    if said == "other":
        return UNKNOWN
    return Sequence("tuple", (made, *(_another(frame, call, made, known, at) for at in range(1, int(said)))))


def _alike(known: Asked) -> bool:
    """Say whether the results of an operation that gives many have one dtype, and one graph."""
    first, second = (known.op.dtype(index, known.form) for index in range(2))
    return second in (None, first) and never_recorded(known, 0) in (never_recorded(known, 1), False)


def _another(frame: Frame, call: TorchCall, made: Tensor, known: Asked, index: int) -> Tensor:
    """Return one more result."""
    tensors = _tensors(call)
    dtype = result_dtype(frame, call.operation, tensors, call.values, call, known, index)
    recorded = requires_grad(frame, call.operation, tensors, call.values, dtype, known, index)
    return replace(
        made,
        dtype=dtype,
        requires_grad=recorded,
        leaf=None if recorded is None else not recorded,
        cut=None if recorded else call.node if never_recorded(known, index) else made.cut,
        storage=(call.node, index),
        range=None,
    )


def make(
    frame: Frame,
    node: ast.expr,
    operation: str,
    tensors: tuple[Tensor, ...],
    values: tuple[Value, ...],
    *,
    call: TorchCall | None = None,
    written: Tensor | None = None,
) -> Tensor:
    """Return the tensor that an operation on tensors (and numbers) gives, its shape aside.

    ``written`` is the tensor that the operation overwrites, where it works in place.
    """
    known = asked(operation, values, call)
    made = _make(frame, node, operation, tensors, values, known, call=call, written=written)
    saving.note_saved(frame, node, operation, known, made, call, in_place=written is not None)
    return made


def _make(  # noqa: PLR0913 - what make and result_of both know
    frame: Frame,
    node: ast.expr,
    operation: str,
    tensors: tuple[Tensor, ...],
    values: tuple[Value, ...],
    known: Asked | None,
    *,
    call: TorchCall | None,
    written: Tensor | None = None,
) -> Tensor:
    origin = Origin(operation, node, values, call)
    dtype = result_dtype(frame, operation, tensors, values, call, known)
    recorded = requires_grad(frame, operation, tensors, values, dtype, known)
    if written is not None and written.requires_grad and frame.state.grad:
        recorded = True
    cut = node if never_recorded(known) else next((t.cut for t in tensors if t.cut), None)
    return Tensor(
        dtype=dtype,
        device=_device(frame, node, operation, tensors, values, call),
        requires_grad=recorded,
        leaf=None if recorded is None else not recorded,
        origin=origin,
        storage=_storage(frame, node, operation, tensors) if written is None else written.storage,
        range=ranges.range_of_result(operation, values, call),
        cut=None if recorded else cut,
    )


def _storage(frame: Frame, node: ast.expr, operation: str, tensors: tuple[Tensor, ...]) -> object:
    """Return where a result lives: with what it is a view of, nowhere known where it may be, else in new memory."""
    if operation in VIEWS and tensors:
        viewed = tensors[0]
        return None if operation in COPIES_IF_SCATTERED and viewed.made_by(*SCATTERS) else viewed.storage
    frame.state.saved.pop(node, None)
    return node


def _tensors(call: TorchCall) -> tuple[Tensor, ...]:
    return tuple(tensors_in((*call.values, *call.keyword_values.values())))


def tensors_in(values: Iterable[Value]) -> Iterable[Tensor]:
    """Yield the tensors among values, those in lists of known items included."""
    return (value for value in flat(values) if isinstance(value, Tensor))


# -- shape ------------------------------------------------------------------------------------------------------


def call_shape(frame: Frame, call: TorchCall) -> shapes.Result:
    """Return the shape of a call's result, reporting sizes that cannot meet."""
    frame.retract(ShapeMismatch, call.node)
    try:
        return shapes.call_shape(call)
    except shapes.Mismatch as mismatch:
        values = (*call.values, *call.keyword_values.values())
        frame.emit(ShapeMismatch(call.node, call.operation, mismatch.kind, mismatch.message, call, values))
        return None


def operator_shape(frame: Frame, node: ast.expr, operation: str, values: tuple[Value, ...]) -> Shape | None:
    """Return the shape of ``a + b`` and the like, reporting sizes that cannot broadcast."""
    if len(values) == 1:
        return values[0].shape if isinstance(values[0], Tensor) else None
    frame.retract(ShapeMismatch, node)
    try:
        return shapes.operator_shape(operation, values[0], values[1])
    except shapes.Mismatch as mismatch:
        frame.emit(ShapeMismatch(node, operation, mismatch.kind, mismatch.message, None, values))
        return None


# -- device -----------------------------------------------------------------------------------------------------


def same_device(first: str, second: str) -> bool | None:
    """Say whether two devices are the same; None where one is only known by a name that may mean the other."""
    if first == second:
        return True
    if first[0] == "$" or second[0] == "$":
        return None
    if {first, second} in ({"cuda", "cuda:0"}, {"auto", "cuda"}, {"auto", "cuda:0"}):
        return True
    return None if "auto" in (first, second) and "cpu" not in (first, second) else False


def _device(
    frame: Frame,
    node: ast.expr,
    operation: str,
    tensors: tuple[Tensor, ...],
    values: tuple[Value, ...],
    call: TorchCall | None,
) -> str | None:
    frame.retract(DeviceMismatch, node)
    module_device = _device_of_parameters(call.module) if call is not None and call.module is not None else None
    moved = (as_tensor(v) for v in flat(values) if isinstance(v, Quantity) and v.device) if tensors else ()
    placed = [t for t in (*tensors, *moved) if isinstance(t, Tensor) and not _is_free_scalar(t)]
    if operation not in KEEPS_DEVICE_APART:
        bound = placed if operation in _NEEDS_DIMENSIONS else [t for t in placed if not _may_be_free_scalar(t)]
        known = [d for d in (module_device, *(t.device for t in bound)) if d is not None]
        certain = any(same_device(known[0], other) is False for other in known[1:])
        if certain or _may_differ(known):
            expressions = (*call.operands, *call.keywords.values()) if call is not None else operands_of(node)
            frame.emit(DeviceMismatch(node, operation, tuple(expressions), tuple(known), values, call, certain))
            return None
    elif tensors:
        return tensors[0].device
    return module_device or _common_device(placed)


def _device_of_parameters(module: Object) -> str | None:
    """Return where a module is; one without parameters is nowhere, wherever the module around it has been moved."""
    return None if has_parameters(module) is False else module.device


def _common_device(tensors: list[Tensor]) -> str | None:
    """Return the device of a result: where one operand is on a GPU, all are that the operation can take."""
    devices = {tensor.device for tensor in tensors}
    if devices == {"cpu"}:
        return "cpu"
    devices -= {None}
    return devices.pop() if len(devices) == 1 and "cpu" not in devices else None


def _is_free_scalar(tensor: Tensor) -> bool:
    """A CPU tensor without dimensions may meet tensors on any device."""
    return tensor.device == "cpu" and tensor.shape == ()


def _may_be_free_scalar(tensor: Tensor) -> bool:
    return tensor.device == "cpu" and tensor.shape is None and not _has_dimensions(tensor)


def _has_dimensions(tensor: Tensor) -> bool:
    """Say whether a tensor of unknown rank was computed element by element from one that has dimensions."""
    for _ in range(4):
        operands = tensor.origin.operands if tensor.origin is not None else ()
        if tensor.made_by(*_FILLED):
            return True
        if not tensor.made_by(*_ELEMENTWISE) or not operands or not isinstance(operands[0], Tensor):
            return False
        tensor = operands[0]
    return False


def _may_differ(devices: list[str]) -> bool:
    """Say whether a device known by a name meets the CPU."""
    return "cpu" in devices and any(device[0] == "$" for device in devices)


def operands_of(node: ast.AST | None) -> tuple[ast.expr, ...]:
    """Return the operand expressions of an operator."""
    match node:
        case ast.BinOp(left=left, right=right):
            return (left, right)
        case ast.UnaryOp(operand=operand):
            return (operand,)
        case ast.Compare(left=left, comparators=others):
            return (left, *others)
        case ast.AugAssign(target=target, value=value):
            return (target, value)
        case _:
            return ()


def _through_parameters(frame: Frame, made: Tensor, module: Object) -> Tensor:
    """A module's parameters require grad, so what it computes does too, where a graph is recorded."""
    learns = has_parameters(module)
    if learns is False or frame.state.grad is False:
        return made
    if learns and frame.state.grad and not module.frozen and not frame.module.freezes:
        return replace(made, requires_grad=True, leaf=False, cut=None)
    return replace(made, requires_grad=made.requires_grad or None)
