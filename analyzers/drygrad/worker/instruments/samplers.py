"""Samplers that do not fit the dataset they draw from."""

from __future__ import annotations

import weakref
from typing import Any, ClassVar

import torch.utils.data

from drygrad.worker.listening import Heard, Listening
from drygrad.worker.run import Fault, Instrument, Run


class Samplers(Instrument):
    """Compares the weights of a weighted sampler with the samples of its loader's dataset."""

    name: ClassVar[str] = "samplers"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._made: Any = weakref.WeakKeyDictionary()
        self._listening = Listening(run)

    def start(self) -> None:
        """Listen to the making of samplers and loaders."""
        self._listening.after(torch.utils.data.WeightedRandomSampler, "__init__", self._sampler_made)
        self._listening.after(torch.utils.data.DataLoader, "__init__", self._loader_made)

    def _sampler_made(self, heard: Heard) -> None:
        self._made[heard.args[0]] = self.run.lines.caller()

    def _loader_made(self, heard: Heard) -> None:
        loader = heard.args[0]
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
            else f"{weights} weights for a dataset of {samples} samples: some indices drawn do not exist"
        )
        self.run.report(Fault("DG806", message, self._made[sampler] or self.run.lines.caller()))

    def finish(self) -> None:
        """Listen no more."""
        self._listening.end()
