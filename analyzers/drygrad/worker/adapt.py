"""What a dry run changes in torch: loaders without worker processes, groups of one, no compilation, no downloads."""

from __future__ import annotations

import sys
from typing import Any, Callable

import torch
import torch.utils.data

from drygrad.worker import loader_workers, pretrained, standing_in, trainers
from drygrad.worker.compiled import OptimizedModule
from drygrad.worker.loops import Batches, Loops
from drygrad.worker.ragged import rest_of_loader
from drygrad.worker.run import Run


def adapt(run: Run, loops: Loops) -> None:
    """Change torch for the rest of this process."""
    _bound_loaders(run, loops)
    loader_workers.install(run)
    trainers.install(run, loops.limit)
    pretrained.install(run)
    standing_in.install(run)
    _compile_nothing(run)
    _take_lengths_anywhere()
    if torch.distributed.is_available():
        from drygrad.worker import lonely_group

        lonely_group.install(run)


def _bound_loaders(run: Run, loops: Loops) -> None:
    loader: Any = torch.utils.data.DataLoader
    iterate: Callable[..., Any] = loader.__iter__

    def __iter__(self: Any) -> Any:
        batches = iterate(self)
        return Batches(loops, batches, _length(self), run.lines.caller(2), rest_of_loader(self))

    loader.__iter__ = __iter__


def _unchanged(function: Any) -> Any:
    return function


def _length(loader: Any) -> int | None:
    try:
        return len(loader)
    except (TypeError, NotImplementedError):
        return None


def _take_lengths_anywhere() -> None:
    """Let ``ctc_loss`` take lengths on the CPU with logits on a GPU: it does, but not where operations are watched."""
    loss: Callable[..., Any] = torch.ctc_loss

    def ctc_loss(log_probs: Any, targets: Any, *rest: Any, **named: Any) -> Any:
        lengths = [v.to(log_probs.device) if isinstance(v, torch.Tensor) else v for v in rest]
        by_name = {k: v.to(log_probs.device) if isinstance(v, torch.Tensor) else v for k, v in named.items()}
        return loss(log_probs, targets, *lengths, **by_name)

    torch.ctc_loss = ctc_loss


def _compile_nothing(run: Run) -> None:
    def compile(model: Any = None, **_: Any) -> Any:
        caller: str = sys._getframe(1).f_globals.get("__name__", "")  # pyright: ignore[reportPrivateUsage]
        run.compiles = run.compiles or not caller.startswith("torch.")  # `flex_attention` asks for its own checks
        run.note("torch.compile was skipped; the code ran eagerly")
        if isinstance(model, torch.nn.Module):
            return OptimizedModule(model)
        return _unchanged if model is None else model

    def compile_module(self: Any, *_: Any, **__: Any) -> None:
        compile(self)

    def cond(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
        return (true_fn if pred else false_fn)(*operands)

    torch.compile = compile  # type: ignore[assignment]
    torch.cond = cond  # type: ignore[assignment]  # torch's own compiles both branches
    torch.nn.Module.compile = compile_module  # type: ignore[method-assign]
