"""What autograd keeps: less where blocks are computed again, nothing where no gradient is wanted."""

from __future__ import annotations

import importlib
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, ClassVar

import torch

from drygrad.worker.forecast.changes.change import Call, Change, around_calls, around_outermost

_modes: Any = torch.overrides._get_current_function_mode_stack  # pyright: ignore


class Checkpoint(Change):
    """The blocks of a class keep what they are given alone, and are computed once more in backward."""

    word: ClassVar[str] = "checkpoint"

    def enter(self, left: ExitStack) -> None:
        """Call these blocks through a checkpoint."""
        checkpoint: Call = importlib.import_module("torch.utils.checkpoint").checkpoint

        def block(call: Call, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            kind: Any = type(module)  # pyright: ignore
            wanted = f"{kind.__module__}.{kind.__qualname__}" == self.argument
            if not wanted or not torch.is_grad_enabled() or not _keeps(module, args):
                return call(*args, **kwargs)
            self.touched += 1
            return checkpoint(call, *args, use_reentrant=False, context_fn=_contexts, **kwargs)

        around_calls(left, block)


def _contexts() -> tuple[Any, Any]:
    """Return what a block is computed in, first and again: then by a thread of autograd's, which modes do not reach."""
    return nullcontext(), _within(_modes())


@contextmanager
def _within(modes: list[Any]) -> Generator[None]:
    with ExitStack() as left:
        for mode in modes:
            left.enter_context(mode)
        yield


def _keeps(module: Any, args: tuple[Any, ...]) -> bool:
    """Say whether a call of it is followed by autograd."""
    if any(isinstance(value, torch.Tensor) and value.requires_grad for value in args):
        return True
    return any(parameter.requires_grad for parameter in module.parameters())


class NoGrad(Change):
    """Modules in evaluation are called without a graph."""

    word: ClassVar[str] = "no-grad"

    def enter(self, left: ExitStack) -> None:
        """Call modules that are not in training under ``no_grad``."""

        def forward(call: Call, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if (
                module.training
                or not torch.is_grad_enabled()
                or not next(module.parameters(), torch.zeros(0)).requires_grad
            ):
                return call(*args, **kwargs)
            self.touched += 1
            with torch.no_grad():
                return call(*args, **kwargs)

        around_outermost(left, forward)
