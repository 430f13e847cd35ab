"""What autograd keeps of its operands and results for the backward to come."""

from __future__ import annotations

import ast

from drygrad.static.facts.events import Saved
from drygrad.static.facts.frame import Frame
from drygrad.static.facts.operations import (
    MULTIPLICATIVE,
    REDUCES_TO_INDICES,
    SAVES_INPUT,
    SAVES_OUTPUT,
    SAVES_OUTPUT_IN_PLACE,
)
from drygrad.static.facts.values import Constant, Tensor, TorchCall, Value


def note_saved(frame: Frame, node: ast.expr, operation: str, values: tuple[Value, ...], made: Tensor) -> None:
    """Note whose content an operation keeps for its backward."""
    if made.requires_grad is False:
        return
    if operation in REDUCES_TO_INDICES and _has_dim(node):
        _note_compared(frame, node, operation, values, made)
        return
    if operation in SAVES_OUTPUT:
        _save(frame, made, Saved(operation, node, "output", made.requires_grad))
    if operation in MULTIPLICATIVE:
        _save_factors(frame, node, operation, values, made)
    elif operation in SAVES_INPUT:
        first = next((v for v in values if isinstance(v, Tensor)), None)
        _save(frame, first, Saved(operation, node, "input", made.requires_grad))


def note_saved_in_place(
    frame: Frame, node: ast.expr, operation: str, values: tuple[Value, ...], written: Tensor
) -> None:
    """Note what an in-place form keeps: its result or another operand, never the content that it overwrites."""
    if written.requires_grad is False:
        return
    if operation in SAVES_OUTPUT_IN_PLACE:
        _save(frame, written, Saved(operation, node, "output", written.requires_grad))
    other = values[1] if len(values) == 2 else None
    before = values[0]
    if operation in ("mul", "div") and isinstance(other, Tensor) and isinstance(before, Tensor):
        _save(frame, other, Saved(operation, node, "input", _both(before.requires_grad, written.requires_grad)))


def note_module_input(frame: Frame, call: TorchCall, made: Tensor) -> None:
    """A layer keeps its input for the gradient of its weight, even where the input requires none."""
    if call.operation in ("linear", "conv1d", "conv2d", "conv3d") and call.values and made.requires_grad is not False:
        _save(frame, call.values[0], Saved(call.operation, call.node, "input", made.requires_grad))


def _has_dim(node: ast.expr) -> bool:
    """Say whether a reduction is called with more than the tensor it reduces."""
    if not isinstance(node, ast.Call):
        return False
    method = isinstance(node.func, ast.Attribute) and not (
        isinstance(node.func.value, ast.Name) and node.func.value.id == "torch"
    )
    return bool(node.keywords) or len(node.args) > (0 if method else 1)


def _note_compared(frame: Frame, node: ast.expr, operation: str, values: tuple[Value, ...], made: Tensor) -> None:
    """``torch.max(a, b)`` keeps both tensors."""
    if len(values) > 1 and isinstance(values[1], Tensor):
        for value in values[:2]:
            _save(frame, value, Saved(operation, node, "input", made.requires_grad))


def _save_factors(frame: Frame, node: ast.expr, operation: str, values: tuple[Value, ...], made: Tensor) -> None:
    """A factor is kept for the gradient of the other one; a denominator and a base for their own as well."""
    if len(values) < 2:
        return
    first, second = values[:2]
    if isinstance(first, Tensor):
        needed = _gradient(second) if not _keeps_base(operation, second) else _either(first, second)
        _save(frame, first, Saved(operation, node, "input", _both(needed, made.requires_grad)))
    if isinstance(second, Tensor) and isinstance(first, Tensor):
        needed = _gradient(first) if operation not in ("div", "pow") else _either(first, second)
        _save(frame, second, Saved(operation, node, "input", _both(needed, made.requires_grad)))


def _keeps_base(operation: str, exponent: Value) -> bool:
    return operation == "pow" and not (isinstance(exponent, Constant) and exponent.value == 0)


def _gradient(value: Value) -> bool | None:
    if isinstance(value, Tensor):
        return value.requires_grad
    return False if isinstance(value, Constant) else None


def _either(first: Tensor, second: Value) -> bool | None:
    return first.requires_grad or _gradient(second)


def _both(first: bool | None, second: bool | None) -> bool | None:
    if first is False or second is False:
        return False
    return True if first and second else None


def _save(frame: Frame, tensor: Value | None, entry: Saved) -> None:
    if not isinstance(tensor, Tensor) or tensor.storage is None or entry.records is False:
        return
    if tensor.requires_grad is False and entry.role == "output":
        return
    present = frame.state.saved.get(tensor.storage, ())
    others = tuple(known for known in present if known.node is not entry.node or known.role != entry.role)
    if len(others) == len(present) or entry.records:
        frame.state.saved[tensor.storage] = (*others, entry)
