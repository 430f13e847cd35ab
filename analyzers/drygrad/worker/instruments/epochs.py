"""Distributed samplers that are not told which epoch it is."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any, ClassVar

from torch.utils.data.distributed import DistributedSampler

from drygrad.worker.listening import Heard, Listening
from drygrad.worker.run import Fault, Instrument, Place, Run


@dataclass
class _Passes:
    """What is known of a sampler that shuffles."""

    made: Place | None
    epoch: int | None = None
    """Of its last pass."""
    trained: bool = False
    """Whether a backward pass came after that."""
    again: Place | None = None
    """Where the same order begins anew, if it does."""


class Epochs(Instrument):
    """Waits for a second pass of training in the order of the first."""

    name: ClassVar[str] = "epochs"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._listening = Listening(run)
        self._known: Any = weakref.WeakKeyDictionary()
        self._last: _Passes | None = None

    def start(self) -> None:
        """Listen to samplers."""
        self._listening.after(DistributedSampler, "__init__", self._made)
        self._listening.after(DistributedSampler, "__iter__", self._begun)

    def _made(self, heard: Heard) -> None:
        sampler = heard.args[0]
        if sampler.shuffle:
            self._known[sampler] = _Passes(self.run.lines.caller())

    def _begun(self, heard: Heard) -> None:
        sampler: Any = heard.args[0]
        passes: _Passes | None = self._known.get(sampler)
        if passes is None:
            return
        passes.again = self.run.lines.caller() if passes.trained and passes.epoch == sampler.epoch else None
        passes.epoch, passes.trained = sampler.epoch, False
        self._last = passes

    def backward_ends(self, error: BaseException | None) -> None:
        """Take a pass for one of training; tell where it is the second one in the same order."""
        passes = self._last
        if passes is None:
            return
        passes.trained = True
        if passes.again is not None:
            related = [("the second epoch begins here", passes.again)]
            message = "set_epoch() is not called between two epochs, so both use the same order"
            self.run.report(Fault("DG727", message, passes.made or passes.again, related=related))
            passes.again = None

    def finish(self) -> None:
        """Listen no more."""
        self._listening.end()
