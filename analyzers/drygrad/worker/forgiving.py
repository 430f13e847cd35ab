"""Goes on where tensors of several devices have met, as if those on the CPU had been moved: more may lie behind.

An operation that the simulated GPU refuses is told, and executed once more with its operands on the GPU; what the
program has of them stays where it is. So each thing that the program makes on the CPU by itself is found in one run.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import re
import sys
from types import FrameType, TracebackType
from typing import Any, Callable

import torch
from torch.utils._pytree import tree_map

from drygrad.worker.explain.blame import is_loop
from drygrad.worker.ledger import Origin
from drygrad.worker.run import Run
from drygrad.worker.watch import Op

_REFUSED = re.compile(r"Expected all tensors to be on the same device")
_MOST = 20


class Forgiving:
    """What a run calls for an operation that was refused; ``told`` hears of those that have a cause of their own.

    ``told`` is given the error with the traceback that it would have left with.
    """

    def __init__(self, run: Run, told: Callable[[RuntimeError], None]) -> None:
        self._run = run
        self._told = told
        self._causes: list[Origin | None] = []

    def __call__(self, op: Op, error: RuntimeError) -> Any:
        """Return what an operation gives with all its operands on one device. Raises its error where that cannot be."""
        wanted = self._wanted(op) if _REFUSED.search(str(error)) else None
        if wanted is None or len(self._causes) >= _MOST:
            raise error
        cause, is_new = self._cause(op)
        if is_new or not self._causes:
            self._causes.append(cause)
            self._told(error.with_traceback(_way_out(sys._getframe(1).f_back, error.__traceback__)))

        def moved(value: Any) -> Any:
            return value.to(wanted) if isinstance(value, torch.Tensor) else value

        return op.func(*tree_map(moved, op.args), **tree_map(moved, op.kwargs))

    def _wanted(self, op: Op) -> torch.device | None:
        """Return the device to move to; None where a write would miss what it was to reach, or in a backward pass."""
        if op.phase != "forward" or (op.func._schema.is_mutable and not op.tensors()[0].is_cuda):
            return None
        return next((tensor.device for tensor in op.tensors() if tensor.is_cuda), None)

    def _cause(self, op: Op) -> tuple[Origin | None, bool]:
        """Return what has made an operand on the CPU of nothing, and whether that is a cause that was not met before.

        What the program was given, or has loaded, and the weights of a module are the matter of who made them.
        """
        strays = [tensor for tensor in op.tensors() if not tensor.is_cuda and tensor.dim()]
        held = [self._run.held_of(stray) for stray in strays if not isinstance(stray, torch.nn.Parameter)]
        made = next((one.roots.device for one in held if one is not None), None)
        if made is None or not made.from_nothing or made.instruction is None or any(map(is_loop, made.lines)):
            return made, False
        known = {cause.instruction for cause in self._causes if cause is not None}
        return made, made.instruction not in known


def _way_out(frame: FrameType | None, inner: TracebackType | None) -> TracebackType | None:
    """Return the traceback that an error has when it has left all the frames that it could leave."""
    while frame is not None:
        inner = TracebackType(inner, frame, frame.f_lasti, frame.f_lineno)
        frame = frame.f_back
    return inner
