"""What torch itself warns of, where the warning means that something costs much or does not work."""

from __future__ import annotations

import re
import warnings
from typing import Any, ClassVar

from drygrad.worker.run import Fault, Instrument, Run

_MEANING = (
    (
        re.compile("Creating a tensor from a list of numpy.ndarrays is extremely slow"),
        "DG609",
        "a list of NumPy arrays becomes a tensor element by element: join the arrays first, with np.stack",
    ),
    (
        re.compile("The .grad attribute of a Tensor that is not a leaf"),
        "DG118",
        "this tensor is the result of an operation, backward() leaves no gradient there: grad is None",
    ),
    (
        re.compile("None of the inputs have requires_grad=True. Gradients will be None"),
        "DG119",
        "no input of the checkpoint requires grad: what runs in it gets no gradients",
    ),
    (
        re.compile("dropout option adds dropout after all but last recurrent layer"),
        "DG754",
        "a single layer has no layers to drop between: this dropout never drops anything",
    ),
)


class WarningsOfTorch(Instrument):
    """Listens to Python's warnings; all of them are shown as before."""

    name: ClassVar[str] = "warnings"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._shown: Any = None

    def start(self) -> None:
        """Hear of what would be printed."""
        self._shown = shown = warnings.showwarning

        def heard(message: Any, *rest: Any, **named: Any) -> None:
            self._judge(str(message))
            shown(message, *rest, **named)

        warnings.showwarning = heard

    def _judge(self, text: str) -> None:
        place = self.run.lines.caller()
        for pattern, code, message in _MEANING:
            if place is not None and pattern.match(text):
                self.run.report(Fault(code, message, place, detail=text.strip()))

    def finish(self) -> None:
        """Let warnings be."""
        if self._shown is not None:
            warnings.showwarning = self._shown
