"""Forward passes of modules in evaluation mode that recorded a graph which no backward pass ever used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, cast

import torch
from torch.nn.modules import module as hooks

from drygrad.worker.run import Fault, Instrument, Place, Run

_GRAPH_OF_EVALUATION = "DG506"
_A_LOOP = 2


class Evaluation(Instrument):
    """Counts, by line, the passes of outermost modules in evaluation mode whose result carries a graph.

    A backward pass may use any graph recorded before it, so only what comes after the last one is reported, and only
    where the target returns nothing that carries a graph.
    """

    name: ClassVar[str] = "evaluation"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._depth = 0
        self._recorded: Counter[Place] = Counter()
        self._decided = False
        self._handles: list[Any] = []

    def start(self) -> None:
        """Listen to all modules' forward passes."""
        self._handles = [
            hooks.register_module_forward_pre_hook(self._enters),
            hooks.register_module_forward_hook(self._leaves, always_call=True),
        ]

    def _enters(self, module: torch.nn.Module, inputs: Any) -> None:
        self._depth += 1

    def _leaves(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        self._depth -= 1
        if self._depth or module.training or not any(map(_has_graph, _tensors(output))):
            return
        if not any(map(_has_graph, _tensors(inputs))):  # else another's graph goes on, a saliency map's for instance
            place = self.run.lines.caller()
            if place is not None:
                self._recorded[place] += 1

    def backward_begins(self, roots: tuple[Any, ...], place: Place | None) -> None:
        """Acquit what was recorded so far; the probe's own pass, after the target has returned, acquits nothing."""
        if not self._decided:
            self._recorded.clear()

    def returned(self, value: Any, place: Place | None) -> None:
        """Acquit everything if the caller gets a graph."""
        self._decided = True
        if any(map(_has_graph, _tensors(value))):
            self._recorded.clear()

    def finish(self) -> None:
        """Report what nothing used."""
        for handle in self._handles:
            handle.remove()
        for place, passes in self._recorded.items():
            if passes >= _A_LOOP and not self.run.result.get("error"):
                message = f"each of {passes} passes in eval mode recorded a graph that nothing used"
                self.run.report(Fault(_GRAPH_OF_EVALUATION, message, place, facts={"passes": passes}))


def _has_graph(tensor: torch.Tensor) -> bool:
    return tensor.requires_grad


def _tensors(value: object) -> Iterator[torch.Tensor]:
    """Yield the tensors in a value, in lists, tuples and mappings one level deep."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).values()
        yield from (item for item in items if isinstance(item, torch.Tensor))
    elif isinstance(value, (list, tuple)):
        yield from (item for item in cast("list[object]", value) if isinstance(item, torch.Tensor))
