"""Indices beyond the classes, the vocabulary or the dimension, and probabilities that are none, before the kernel."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import math
import re
from typing import Any, ClassVar

import torch

from drygrad.worker import graphs
from drygrad.worker.explain.blame import Size, size_of_layer
from drygrad.worker.explain.ranges import CHECKED, Breach, Range, breach, is_index, outside
from drygrad.worker.explain.samples import part_of_sample
from drygrad.worker.naming import Call, call_here, call_of_error
from drygrad.worker.reading import at_hand, extremes, is_readable, quietly
from drygrad.worker.run import Fault, Instrument, Place, Stop
from drygrad.worker.watch import Op

_FEW = 8
_REMAINDER = "aten::remainder"
_CLASSES = frozenset({"aten::nll_loss_forward", "aten::nll_loss2d_forward"})
_INDEX, _LOGITS, _PROBABILITY = "DG302", "DG307", "DG316"


class DeviceAssert(Stop):
    """A kernel would have failed on the device, and left it unusable; so the operation was not started."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class IndexRanges(Instrument):
    """Checks what a kernel on the GPU would assert, and stops the run there; explains what the CPU raises.

    On a real GPU each check is a wait for the device: one for each lookup and each loss.
    """

    name: ClassVar[str] = "index_ranges"

    def wants(self, hook: str, func: Any, phase: str) -> bool:
        """Ask for the operations whose kernels assert, and for what ``take_along_dim`` begins with."""
        return func._schema.name in CHECKED or func._schema.name == _REMAINDER

    def before_op(self, op: Op) -> None:
        """Check the operations whose kernels assert on the device."""
        if op.name in CHECKED and self.run.device != "cpu" and any(t.is_cuda for t in op.tensors()):
            found = breach(op)
            if found:
                call = call_here(self.run)
                place = call.place if call else self.run.lines.place(op.instruction)
                raise DeviceAssert(self._fault(found, op, call, place))
        elif op.name == _REMAINDER and is_readable(op.args[0]) and not op.args[0].is_floating_point():
            self._wrapped(op)

    def _wrapped(self, op: Op) -> None:
        """Look at ``take_along_dim``, which silently counts from the other end what is out of range."""
        call = call_here(self.run)
        if call and "take_along_dim" in (call.text or "") and isinstance(op.args[1], int):
            wanted = Range("indices", op.args[0], -op.args[1], op.args[1], _wraps)
            found = outside(wanted)
            if found:
                self.run.report(self._fault(found, op, call, call.place))

    def explain(self, error: BaseException, place: Place | None) -> Fault | None:
        """Explain a stopped kernel, and the errors that the CPU raises for the same reasons."""
        if isinstance(error, DeviceAssert):
            return error.fault
        call = call_of_error(self.run, error)
        op = self.run.op
        if op is not None and op.name in CHECKED and isinstance(error, (IndexError, RuntimeError)):
            found = breach(op)
            if found:
                fault = self._fault(found, op, call, place)
                fault.detail = str(error)
                return fault
        return _by_text(error, place)

    def _fault(self, found: Breach, op: Op, call: Call | None, place: Place | None) -> Fault:
        code = _INDEX if is_index(found.range) else _PROBABILITY
        if op.name == "aten::binary_cross_entropy" and not math.isnan(found.value):
            code = _LOGITS
        message, name = _sentence(found, call)
        facts = {"operand": name, "value": _fact(found.value), "position": list(found.position), "count": found.count}
        facts.update(low=found.range.low, high=_fact(found.range.high))
        fault = Fault(code, message, place, related=self._origins(found, op, name, place), facts=facts)
        if self._at_sample(fault, found, op):
            return fault
        size = self._table_size(found, op)
        if size is not None and place is not None and size.place.line != place.line:
            fault.related = [r for r in fault.related if r[1].line != size.place.line] + [("it fails here", place)]
            fault.at, fault.facts["size"] = size.place, size.text
        return fault

    def _at_sample(self, fault: Fault, found: Breach, op: Op) -> bool:
        """Move a fault to the dataset that delivers numbers as they are, where indices from 0 are wanted."""
        delivered = self.run.delivered(found.range.values) if is_index(found.range) else None
        part = part_of_sample(delivered, self.run.lines) if delivered is not None else None
        if part is None or fault.at is None or part.place.line == fault.at.line:
            return False
        high, low = int(found.range.high), extremes(found.range.values)
        if op.name == "aten::embedding" and _with_gaps(part.values) == high:
            told = f": its {high} distinct values are not 0 to {high - 1}"
        elif op.name in _CLASSES and low is not None and low[0] == 1 and low[1] == high:
            told = ": they are counted from 1"
        else:
            return False
        fault.related.append(("it fails here", fault.at))
        fault.facts["stored"] = "numbers" if op.name == "aten::embedding" else "from 1"
        fault.message, fault.at = fault.message + told, part.place
        return True

    def _table_size(self, found: Breach, op: Op) -> Size | None:
        """Return where the rows of a table were counted, if it has just a few too little."""
        high = found.range.high
        held = self.run.held_of(op.args[0]) if op.name == "aten::embedding" and found.value >= high else None
        if held is None or _highest(found.range.values) - high >= _FEW:
            return None
        return size_of_layer(held.origin.lines, "num_embeddings", self.run.lines)

    def _origins(self, found: Breach, op: Op, name: str, place: Place | None) -> list[tuple[str, Place]]:
        """Say where the values were made, and the layer that the bound comes from."""
        origin = self.run.origin_of(found.range.values)
        made = [(f"`{name}` is created here", origin.instruction)] if origin else []
        source = op.args[0]
        if is_index(found.range) and source.grad_fn is not None:
            layer = next((p for p in graphs.leaves([source]) if p.dim() == 1 and len(p) == found.range.high), None)
            bound = self.run.origin_of(layer) if layer is not None else None
            made += [(f"the {found.range.high} classes come from here", bound.instruction)] if bound else []
        elif source.is_leaf and source.dim() == 2:
            bound = self.run.origin_of(source)
            made += [(f"the {len(source)} rows come from here", bound.instruction)] if bound else []
        places = [(message, self.run.lines.place(instruction)) for message, instruction in made]
        return [(message, at) for message, at in places if at and (place is None or at.line != place.line)]


def _with_gaps(values: object) -> int | None:
    """Return how many different integers a dataset keeps, if not all between are among them."""
    try:
        found = torch.as_tensor(values)
    except (RuntimeError, TypeError, ValueError):
        return None
    if not is_readable(found) or found.is_floating_point() or not found.numel():
        return None
    unique: Any = torch.unique  # pyright: ignore
    with quietly():
        different = unique(at_hand(found))
        count = len(different)
        return count if int(different[-1]) - int(different[0]) >= count else None


def _highest(values: torch.Tensor) -> float:
    found = extremes(values)
    return found[1] if found is not None else math.inf


def _wraps(call: Call) -> str:
    return "take_along_dim wraps it around silently"


def _fact(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _sentence(found: Breach, call: Call | None) -> tuple[str, str]:
    wanted = found.range
    name, element = _named(found, call)
    more = f" ({found.count} such values)" if found.count > 1 else ""
    why = wanted.why(call) if call else f"of {wanted.argument}"
    if math.isnan(found.value):
        return f"{element} is NaN{more}: {why}", name
    value = f"{int(found.value)}" if is_index(wanted) else f"{found.value:.6g}"
    if math.isinf(wanted.high) or wanted.high > torch.finfo(torch.float32).max:
        return f"{element} = {value}{more}: {why}", name
    interval = f"[{wanted.low}, {wanted.high})" if is_index(wanted) else "[0, 1]"
    return f"{element} = {value} is outside {interval}{more}: {why}", name


def _named(found: Breach, call: Call | None) -> tuple[str, str]:
    """Return the name of the tensor, and how the user would write the element: also where torch has reshaped it."""
    values, position = found.range.values, list(found.position)
    name, written = call.find(values) if call else (None, values)
    if written.shape != values.shape:
        position = _unravelled(_ravelled(position, values.shape), written.shape)
    name = name or {"self": "input"}.get(found.range.argument, found.range.argument)
    return name, f"`{name}[{', '.join(map(str, position))}]`" if position else f"`{name}`"


def _ravelled(position: list[int], shape: torch.Size) -> int:
    flat = 0
    for index, size in zip(position, shape):
        flat = flat * size + index
    return flat


def _unravelled(flat: int, shape: torch.Size) -> list[int]:
    position: list[int] = []
    for size in reversed(shape):
        flat, index = divmod(flat, size)
        position.append(index)
    return position[::-1]


def _by_text(error: BaseException, place: Place | None) -> Fault | None:
    text = str(error)
    if isinstance(error, IndexError):
        found = re.match(r"index (-?\d+) is out of bounds for dimension (\d+) with size (\d+)", text)
        if found:
            index, dim, size = map(int, found.groups())
            message = f"index {index} is outside [{-size}, {size}): dimension {dim} has {size} entries"
            return Fault(_INDEX, message, place, text, facts={"value": index, "low": -size, "high": size})
    if text.startswith("Class values must be"):
        bound = "negative" if "non-negative" in text else "not below num_classes"
        return Fault(_INDEX, f"one_hot: a class index is {bound}", place, text)
    return None
