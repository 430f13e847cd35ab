"""Losses whose operands broadcast against each other: each prediction compared with every target."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import ast
import re
from typing import Any, ClassVar

import torch

from drygrad.worker.explain.blame import put_together
from drygrad.worker.naming import Call, calls_around
from drygrad.worker.reading import is_plain, size_text
from drygrad.worker.run import Fault, Instrument, Place, Run
from drygrad.worker.watch import Op

_CODE = "DG303"
_LOSSES = frozenset({"aten::mse_loss", "aten::huber_loss", "aten::smooth_l1_loss"})
_COMPARED = frozenset({"aten::sub", "aten::rsub", "aten::mul"})
_TO_LOSS = frozenset(
    "Mean Sum Pow Abs Mul Div Add Sub Rsub Neg Sqrt Square ToCopy Where Maximum Minimum Clamp ClampMin ClampMax Relu "
    "LeakyRelu Elu Softplus Log Log1P Cosh Huber SmoothL1".split()
)
"""What a loss of the user's making consists of, element by element, and what makes one number of it."""
_END = re.compile(r"(Loss)?Backward\d*$")
_PRODUCT = "aten::mul"
_NODES = 64


class Broadcasting(Instrument):
    """Finds (N, 1) against (N): at once in a loss function, at the backward in a loss of the user's own making."""

    name: ClassVar[str] = "broadcasting"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._next_number: Any = torch._C._autograd._get_sequence_nr  # pyright: ignore
        self._differences: dict[int, Fault] = {}

    def wants(self, hook: str, func: Any, phase: str) -> bool:
        """Ask for losses and differences of the forward pass."""
        name = func._schema.name
        return phase == "forward" and (name in _COMPARED or name in _LOSSES)

    def before_op(self, op: Op) -> None:
        """Look at losses and differences whose result is larger than either operand."""
        if len(op.args) < 2 or not is_outer(*op.args[:2]):
            return
        calls = calls_around(self.run)
        if not calls:
            return
        call = calls[0]
        if op.name in _LOSSES or call.function() == "l1_loss" or _is_loss(call):
            given = call.local("input", "target")
            if given and given[0].shape != given[1].shape:
                self.run.report(_fault(put_together(calls, given), given[0], given[1], call.place))
        elif looks_accidental(call, *op.args[:2]) and (op.name != _PRODUCT or _is_compared(*op.args[:2])):
            number = self._next_number() - 1
            self._differences[number] = _fault(put_together(calls, op.args[:2]), *op.args[:2], call.place)

    def backward_begins(self, roots: tuple[Any, ...], place: Place | None) -> None:
        """Report the differences that the loss is a mean or a sum of."""
        if self._differences:
            for root in roots:
                self._walk(root.grad_fn)

    def _walk(self, root: Any) -> None:
        waiting, seen = [root], 0
        while waiting and seen < _NODES:
            node, seen = waiting.pop(), seen + 1
            if node is None:
                continue
            fault = self._differences.get(node._sequence_nr())
            if fault:
                self.run.report(fault)
            elif _END.sub("", node.name()) in _TO_LOSS:
                waiting.extend(next_node for next_node, _ in node.next_functions)


def is_outer(first: Any, second: Any) -> bool:
    """Say whether two operands broadcast in both directions."""
    if not is_plain(first) or not is_plain(second) or min(first.dim(), second.dim()) == 0:
        return False
    one, other = _distinct(first), _distinct(second)
    if one < 2 or other < 2:
        return False
    try:
        return _together(first, second).numel() > max(one, other)
    except RuntimeError:
        return False


def _together(first: torch.Tensor, second: torch.Tensor) -> torch.Size:
    shape: Any = torch.broadcast_shapes  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return shape(first.shape, second.shape)


def _distinct(tensor: torch.Tensor) -> int:
    """Return the number of values, those counted once that an expanded dimension repeats."""
    count = 1
    for size, stride in zip(tensor.shape, tensor.stride()):
        count *= size if stride else 1
    return count


def _is_loss(call: Call) -> bool:
    module = call.module()
    return module is not None and isinstance(module[0], torch.nn.L1Loss)


def looks_accidental(call: Call, first: torch.Tensor, second: torch.Tensor) -> bool:
    """Say whether the shapes are (..., N, 1) and (..., N), and no new dimension is written here."""
    larger, smaller = sorted((first, second), key=torch.Tensor.dim, reverse=True)
    if larger.dim() != smaller.dim() + 1 or larger.shape[-1] != 1 or larger.shape[:-1] != smaller.shape:
        return False
    text = call.text
    return text is not None and "None" not in text and "unsqueeze" not in text


def _is_compared(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Say whether one of two factors is a prediction and the other a target: one has a graph and the other none."""
    return first.requires_grad != second.requires_grad


def _fault(call: Call, first: torch.Tensor, second: torch.Tensor, failed: Place | None) -> Fault:
    """Return the fault at the line that has put the two together; ``failed`` is where they broadcast."""
    written = call.expression()
    sides = (written.left, written.right) if isinstance(written, ast.BinOp) else (None, None)
    names = [call.name(tensor) or (ast.unparse(side) if side else None) for tensor, side in zip((first, second), sides)]
    shown = [
        f"{f'`{name}`' if name else fallback} {size_text(tensor.shape)}"
        for name, fallback, tensor in zip(names, ("the prediction", "the target"), (first, second))
    ]
    whole = size_text(_together(first, second))
    message = f"{shown[0]} and {shown[1]} broadcast to {whole}: each prediction is compared with every target"
    facts = {"operand": names[1], "shape": list(second.shape), "other": names[0], "other_shape": list(first.shape)}
    elsewhere = failed is not None and call.place is not None and failed.line != call.place.line
    related = [("they broadcast here", failed)] if failed is not None and elsewhere else []
    return Fault(_CODE, message, call.place, related=related, facts=facts)
