"""What each name was bound to: shape, dtype, device, and the range of its values."""

from __future__ import annotations

import math
from typing import Any, ClassVar, cast

import torch

from drygrad.worker.reading import dtype_text, extremes, is_plain, is_readable
from drygrad.worker.run import Instrument, Run

_ROWS = 2000
_ITEMS = 4
_NUMEL = 1 << 16


class Shapes(Instrument):
    """Keeps the first tensor that a line has bound to a name; ranges of tensors of up to 65,536 values."""

    name: ClassVar[str] = "shapes"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._rows: dict[tuple[int, str], dict[str, Any]] = {}

    def assigned(self, line: int, name: str, value: Any) -> None:
        """Enter a tensor, or the first ones of a list or tuple as ``x[0]``."""
        if isinstance(value, torch.Tensor):
            self._enter(line, name, value)
        elif isinstance(value, (list, tuple)):
            for position, item in enumerate(cast("list[object]", value)[:_ITEMS]):
                if isinstance(item, torch.Tensor):
                    self._enter(line, f"{name}[{position}]", item)

    def _enter(self, line: int, name: str, tensor: torch.Tensor) -> None:
        if (line, name) in self._rows or len(self._rows) >= _ROWS or not is_plain(tensor):
            return
        row: dict[str, Any] = {
            "line": line,
            "name": name,
            "shape": list(tensor.shape),
            "dtype": dtype_text(tensor.dtype),
            "device": str(tensor.device),
            "requires_grad": tensor.requires_grad,
        }
        self._rows[line, name] = row
        if is_readable(tensor) and tensor.numel() <= _NUMEL:
            for end, bound in zip(("low", "high"), extremes(tensor) or ()):
                row[end] = bound if math.isfinite(bound) else None

    def finish(self) -> None:
        """Add the rows, in the order of the lines."""
        self.run.result["shapes"] = [self._rows[key] for key in sorted(self._rows)]
