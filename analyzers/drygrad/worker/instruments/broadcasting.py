"""Losses whose operands broadcast against each other: each prediction compared with every target."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import ast
import math
import re
from itertools import zip_longest
from typing import Any, ClassVar, NamedTuple

import torch

from drygrad.worker.explain.blame import put_together
from drygrad.worker.explain.promises import promises_one_dimension
from drygrad.worker.lines import Instruction
from drygrad.worker.naming import Call, calls_around
from drygrad.worker.reading import is_plain, size_text
from drygrad.worker.run import Fault, Instrument, Place, Run
from drygrad.worker.spelling import whole_text_of
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
        self._differences: dict[int, _Found] = {}
        self._uses: dict[Instruction, list[_Found]] = {}
        """The losses that a model's output is wrong for, by the line that has made it."""

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
                self._report(self._found(calls, given[0], given[1]))
        elif looks_accidental(call, *op.args[:2]) and (op.name != _PRODUCT or _is_compared(*op.args[:2])):
            number = self._next_number() - 1
            self._differences[number] = self._found(calls, *op.args[:2])

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
            found = self._differences.get(node._sequence_nr())
            if found:
                self._report(found)
            elif _END.sub("", node.name()) in _TO_LOSS:
                waiting.extend(next_node for next_node, _ in node.next_functions)

    def finish(self) -> None:
        """Blame a model's output once where it is wrong for several losses."""
        for made, uses in self._uses.items():
            lines = {use.fault.at.line for use in uses if use.fault.at is not None}
            if len(lines) > 1 or promises_one_dimension(made.code, self.run.lines):
                self.run.faults = [fault for fault in self.run.faults if all(fault is not use.fault for use in uses)]
                self.run.report(self._at_model(made, uses))

    def _found(self, calls: list[Call], first: torch.Tensor, second: torch.Tensor) -> _Found:
        fault = _fault(put_together(calls, (first, second)), first, second, calls[0].place)
        column, other = (first, second) if first.dim() > second.dim() else (second, first)
        origin = self.run.origin_of(column)
        made = origin.instruction if origin is not None else None
        returned = made is not None and made.code.co_name == "forward" and all(made.code is not c.code for c in calls)
        return _Found(fault, made if returned else None, list(column.shape), list(other.shape))

    def _report(self, found: _Found) -> None:
        self.run.report(found.fault)
        if found.made is not None and found.fault in self.run.faults:
            self._uses.setdefault(found.made, []).append(found)

    def _at_model(self, made: Instruction, uses: list[_Found]) -> Fault:
        """Return the fault at the line that has made what several losses, or the documentation, want without a 1."""
        place, first = self.run.lines.place(made), uses[0]
        message = f"{first.fault.message}; the prediction is computed here"
        related = [("compared here", use.fault.at) for use in uses if use.fault.at is not None]
        facts = {"operand": whole_text_of(self.run.lines, made), "shape": first.shape, "other_shape": first.other}
        return Fault(_CODE, message, place, related=related, facts=facts)


class _Found(NamedTuple):
    """A loss of all pairs, the line of the model that has made what has a dimension too many, and both shapes."""

    fault: Fault
    made: Instruction | None
    shape: list[int]
    other: list[int]


def is_outer(first: Any, second: Any) -> bool:
    """Say whether two operands broadcast in both directions."""
    if not isinstance(first, torch.Tensor) or not isinstance(second, torch.Tensor):
        return False
    if not first.dim() or not second.dim() or _are_alike(first, second) or not (is_plain(first) and is_plain(second)):
        return False
    one, other = _distinct(first), _distinct(second)
    if one < 2 or other < 2:
        return False
    shape = _together(first, second)
    return shape is not None and math.prod(shape) > max(one, other)


def _together(first: torch.Tensor, second: torch.Tensor) -> list[int] | None:
    """Return the shape that two operands broadcast to, without the imports of torch's own; None where they do not."""
    shape: list[int] = []
    for one, other in zip_longest(reversed(first.shape), reversed(second.shape), fillvalue=1):
        if 1 not in (one, other) and one != other:
            return None
        shape.append(other if one == 1 else one)
    return shape[::-1]


def _are_alike(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Say of most pairs that do not broadcast at all, at a glance."""
    nested = first.is_nested or second.is_nested  # those have no shape
    return not nested and first.shape == second.shape and first.is_contiguous() and second.is_contiguous()


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
    message = f"{shown[0]} and {shown[1]} broadcast to {whole}; each prediction is compared with every target"
    facts = {"operand": names[1], "shape": list(second.shape), "other": names[0], "other_shape": list(first.shape)}
    elsewhere = failed is not None and call.place is not None and failed.line != call.place.line
    related = [("they broadcast here", failed)] if failed is not None and elsewhere else []
    return Fault(_CODE, message, call.place, related=related, facts=facts)
