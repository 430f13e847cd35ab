"""Conversions that lose what a value is: numbers that integers cannot hold, integers that half precision cannot."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import isfinite
from typing import Any, ClassVar, Optional

import torch

from drygrad.worker.naming import call_here
from drygrad.worker.reading import HALVES, is_readable, quietly
from drygrad.worker.run import Fault, Instrument, Run
from drygrad.worker.watch import Op

_MOST = 100
_LARGEST = 1 << 22
_CASTS = frozenset({"aten::_to_copy", "aten::copy_"})
_RANGE = "aten::arange"
_FILLS = {
    "aten::fill_": "value",
    "aten::full_like": "fill_value",
    "aten::new_full": "fill_value",
    "aten::masked_fill": "value",
    "aten::masked_fill_": "value",
    "aten::index_fill_": "value",
    "aten::scatter_": "value",
}
Found = Optional["tuple[str, str, str]"]
"""Code, sentence and severity of what was lost."""


class Conversions(Instrument):
    """Compares what was converted with what became of it."""

    name: ClassVar[str] = "conversions"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._looks = 0

    def wants(self, hook: str, func: Any, phase: str) -> bool:
        """Ask for what converts, and for what fills, in the forward pass."""
        name = func._schema.name
        return phase == "forward" and (name in _CASTS or name in _FILLS or name == _RANGE)

    def after_op(self, op: Op, result: Any) -> None:
        """Look at a conversion between floats and integers."""
        if not isinstance(result, torch.Tensor) or result.is_complex():
            return
        if op.name in _FILLS:
            self._filled(op, result)
        elif result.dtype in HALVES or not (result.is_floating_point() or result.dtype is torch.bool):
            self._converted(op, result)

    def _filled(self, op: Op, result: torch.Tensor) -> None:
        value = op.argument(_FILLS[op.name])
        if not isinstance(value, float) or result.is_floating_point() or not isfinite(value) or value.is_integer():
            return
        if result.dtype is not torch.bool:
            self._say("DG419", f"{value:g} is written into {_name(result)} and truncated to {int(value)}")

    def _converted(self, op: Op, result: torch.Tensor) -> None:
        source = _source(op)
        if op.name == _RANGE:
            self._look(result, self._range)
        elif source is not None and source.numel() <= _LARGEST and is_readable(source):
            if source.is_floating_point() and not result.is_floating_point():
                self._look(result, partial(self._to_integers, source, op.name == "aten::copy_"))
            elif result.dtype in HALVES and source.dtype in (torch.int64, torch.int32, torch.int16):
                self._look(result, partial(self._to_half, source))

    def _look(self, result: torch.Tensor, at: Callable[[torch.Tensor], Found]) -> None:
        self._looks += 1
        if self._looks <= _MOST and 0 < result.numel() <= _LARGEST and is_readable(result):
            with quietly():
                found = at(result)
            if found is not None:
                self._say(*found)

    def _to_integers(self, source: torch.Tensor, is_write: bool, made: torch.Tensor) -> Found:
        limits = torch.iinfo(made.dtype)
        whole = source.double().trunc()
        outside = ~((whole >= limits.min) & (whole <= float(limits.max)))
        count = int(outside.sum())
        if count:
            value = float(source[outside].flatten()[0])
            became = int(made.expand_as(source)[outside].flatten()[0])
            message = (
                f"{count} of {source.numel()} values exceed the range of {_name(made)}: {value:g} becomes {became} "
                "here, and something else on other devices"
            )
            return "DG420", message, "warning"
        lost = is_write and bool((whole == 0).all()) and bool((source != 0).any())
        if not lost:
            return None
        return "DG419", f"all values written into {_name(made)} are between -1 and 1 and become 0", "warning"

    def _to_half(self, source: torch.Tensor, made: torch.Tensor) -> Found:
        before, after = _different(source), _different(made)
        if before == after:
            return None
        flat = source.flatten()
        counts = flat.numel() > 2 and bool((flat[1:] - flat[:-1] == 1).all())
        return self._merged(before, after, made, "warning" if counts else "info")

    def _range(self, made: torch.Tensor) -> Found:
        after = _different(made)
        return self._merged(made.numel(), after, made, "warning") if after < made.numel() else None

    def _merged(self, before: int, after: int, made: torch.Tensor, severity: str) -> Found:
        exact = "2048" if made.dtype is torch.float16 else "256"
        name = _name(made)
        message = (
            f"{before} different numbers become {after} in {name}, which represents integers exactly only up to {exact}"
        )
        return "DG421", message, severity

    def _say(self, code: str, message: str, severity: str = "warning") -> None:
        call = call_here(self.run)
        # What a package throws away it may not need: T5 takes the logarithm of distances that it then masks.
        if call is not None and call.place is not None and not self.run.lines.is_inside_a_package():
            self.run.report(Fault(code, message, call.place, severity=severity))


def _source(op: Op) -> torch.Tensor | None:
    """Return what was converted."""
    source = op.argument("src") if op.name == "aten::copy_" else op.args[0] if op.args else None
    return source if isinstance(source, torch.Tensor) else None


def _different(tensor: torch.Tensor) -> int:
    values: Any = tensor
    return values.double().unique().numel()


def _name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
