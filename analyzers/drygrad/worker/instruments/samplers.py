"""Samplers that do not fit the dataset they draw from."""

from __future__ import annotations

import weakref
from functools import wraps
from typing import Any, ClassVar

import torch.utils.data

from drygrad.worker.run import Fault, Instrument, Run


class Samplers(Instrument):
    """Compares the weights of a weighted sampler with the samples of its loader's dataset."""

    name: ClassVar[str] = "samplers"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._made: Any = weakref.WeakKeyDictionary()
        self._restore: list[tuple[Any, Any]] = []

    def start(self) -> None:
        """Listen to the making of samplers and loaders."""
        self._after(torch.utils.data.WeightedRandomSampler, self._sampler_made)
        self._after(torch.utils.data.DataLoader, self._loader_made)

    def _after(self, kind: Any, tell: Any) -> None:
        original = kind.__init__

        @wraps(original)
        def made(instance: Any, *args: Any, **kwargs: Any) -> None:
            original(instance, *args, **kwargs)
            tell(instance)

        self._restore.append((kind, original))
        kind.__init__ = made

    def _sampler_made(self, sampler: Any) -> None:
        self._made[sampler] = self.run.lines.caller()

    def _loader_made(self, loader: Any) -> None:
        sampler: Any = getattr(loader, "sampler", None)
        if sampler not in self._made:
            return
        weights = len(sampler.weights)
        try:
            samples = len(loader.dataset)
        except (TypeError, NotImplementedError):
            return
        if weights == samples:
            return
        message = (
            f"{weights} weights for a dataset of {samples} samples: only the first {weights} are ever drawn"
            if weights < samples
            else f"{weights} weights for a dataset of {samples} samples: some that are drawn do not exist"
        )
        self.run.report(Fault("DG806", message, self._made[sampler] or self.run.lines.caller()))

    def finish(self) -> None:
        """Listen no more."""
        for kind, original in self._restore:
            kind.__init__ = original
