"""Tells the instruments of every operation, every backward pass and every optimizer step."""

# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode

from drygrad.worker.lines import Instruction
from drygrad.worker.run import Instrument, Place, Run, overridden

_current_node: Any = torch._C._current_autograd_node


class Op:
    """One operation in flight.

    ``name`` is ``aten::add``; ``phase`` is ``forward``, ``backward``, ``recompute`` (the code of a checkpoint or of a
    custom function inside a backward pass) or ``optimizer``; ``node`` the autograd node that it serves in backward.
    """

    __slots__ = ("args", "func", "instruction", "kwargs", "name", "node", "phase")

    def __init__(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        where: tuple[str, Any, Instruction | None],
    ) -> None:
        self.func = func
        self.args = args
        self.kwargs = kwargs
        self.name: str = func._schema.name
        self.phase, self.node, self.instruction = where

    def tensors(self) -> Iterator[torch.Tensor]:
        """Yield the tensors among the arguments, those in lists included."""
        for value in (*self.args, *self.kwargs.values()):
            if isinstance(value, torch.Tensor):
                yield value
            elif isinstance(value, (list, tuple)):
                yield from (item for item in cast("list[object]", value) if isinstance(item, torch.Tensor))

    def argument(self, name: str) -> Any:
        """Return an argument by the name that the operation's schema gives it; its default if it was left out."""
        for position, argument in enumerate(self.func._schema.arguments):
            if argument.name == name:
                if not argument.kwarg_only and position < len(self.args):
                    return self.args[position]
                return self.kwargs.get(name, argument.default_value)
        return None


class Watch(TorchDispatchMode):
    """The dispatch mode that carries each operation to the instruments."""

    def __init__(self, run: Run, instruments: list[Instrument]) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType]
        self._run = run
        self._lines = run.lines
        self._before = overridden(instruments, "before_op")
        self._after = overridden(instruments, "after_op")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Execute one operation between the instruments' hooks."""
        op = self._run.op = Op(func, args, kwargs or {}, self._where(func._schema.name))
        for hook in self._before:
            hook(op)
        result = func(*args, **op.kwargs)
        for hook in self._after:
            hook(op, result)
        return result

    def _where(self, name: str) -> tuple[str, Any, Instruction | None]:
        node = _current_node()
        here = self._lines.here(2)
        if node is None or here is not None:
            self._lines.created(here, name)
            return self._run.phase if node is None else "recompute", node, here
        return "backward", node, self._lines.of_node(node)


@contextmanager
def watching(run: Run, instruments: list[Instrument]) -> Generator[None]:
    """Let the instruments hear of everything that happens inside the block."""
    removals = [*_hear_of_steps(run, instruments)]
    restore = _hear_of_backward(run, instruments)
    try:
        with Watch(run, instruments):
            yield
    finally:
        restore()
        for handle in removals:
            handle.remove()


def _hear_of_steps(run: Run, instruments: list[Instrument]) -> list[Any]:
    begins, ends = overridden(instruments, "step_begins"), overridden(instruments, "step_ends")

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        run.phase = "optimizer"
        place = run.lines.caller() if begins else None
        for hook in begins:
            hook(optimizer, place)

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        run.phase = "forward"
        for hook in ends:
            hook(optimizer)

    return [register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)]


def _hear_of_backward(run: Run, instruments: list[Instrument]) -> Any:
    begins, ends = overridden(instruments, "backward_begins"), overridden(instruments, "backward_ends")
    engine: Any = torch.autograd._engine_run_backward

    def run_backward(roots: tuple[Any, ...], *args: Any, **kwargs: Any) -> Any:
        place: Place | None = run.lines.caller()
        for hook in begins:
            hook(roots, place)
        error: BaseException | None = None
        try:
            return engine(roots, *args, **kwargs)
        except BaseException as raised:
            error = raised
            raise
        finally:
            for hook in ends:
                hook(error)

    def restore() -> None:
        torch.autograd._engine_run_backward = engine

    torch.autograd._engine_run_backward = run_backward
    return restore
