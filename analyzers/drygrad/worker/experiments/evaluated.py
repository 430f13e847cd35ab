"""A module in evaluation: called with its inputs as they were, one call after the other."""

from __future__ import annotations

from typing import Any, cast

import torch

from drygrad.worker.experiments.batches import mapped
from drygrad.worker.experiments.bench import Bench, Inputs
from drygrad.worker.experiments.relation import NotTried
from drygrad.worker.experiments.trace import Trace


def severity_of(module: torch.nn.Module) -> str | None:
    """Return how grave state in evaluation is: a module that the program trains may never be evaluated."""
    return "info" if module.training else None


def require_forward(given: Inputs) -> None:
    """Raise NotTried where the target is not the forward of a module."""
    if not isinstance(given.owner, torch.nn.Module) or given.function is not given.owner:
        raise NotTried("it is not the forward of a module")


class Evaluated:
    """The module whose forward the target is, put into evaluation mode."""

    def __init__(self, bench: Bench) -> None:
        given = bench.inputs()
        require_forward(given)
        self.bench = bench
        self.severity = severity_of(given.owner)
        self.module: torch.nn.Module = cast("torch.nn.Module", given.owner).eval()
        self._given = given

    def state(self) -> list[torch.Tensor]:
        """Return the parameters and buffers."""
        return [*torch.nn.Module.parameters(self.module), *self.module.buffers()]

    def call(self, seed: int) -> tuple[Any, Trace]:
        """Call the module without gradients, with copies of its inputs; return what it returns and computes."""
        trace = Trace(self.bench.run)
        self.bench.listen(trace)
        given = mapped(self._given, lambda tensor: tensor.detach().clone())
        with torch.no_grad():
            returned = self.bench.must_pass(given, seed)
        if trace.full:
            raise NotTried("too large to compare")
        return returned, trace
