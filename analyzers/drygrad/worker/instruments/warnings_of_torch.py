"""What torch itself warns of, where the warning means that something costs much or does not work."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from typing import Any, ClassVar

from drygrad.worker.explain.carrying import carried_names
from drygrad.worker.run import Fault, Instrument, Place, Run

_NO_LEAF = "DG118"
_MEANING = (
    (
        re.compile("Creating a tensor from a list of numpy.ndarrays is extremely slow"),
        "DG609",
        "building a tensor from a list of NumPy arrays is slow; call np.stack first",
    ),
    (
        re.compile("The .grad attribute of a Tensor that is not a leaf"),
        _NO_LEAF,
        "this tensor is not a leaf, so backward() leaves its .grad as None",
    ),
    (
        re.compile("None of the inputs have requires_grad=True. Gradients will be None"),
        "DG119",
        "no input of the checkpoint requires grad, so its contents get no gradients",
    ),
    (
        re.compile("dropout option adds dropout after all but last recurrent layer"),
        "DG754",
        "dropout has no effect in a single-layer RNN; it is applied between layers only",
    ),
)


class WarningsOfTorch(Instrument):
    """Listens to Python's warnings; all of them are shown as before."""

    name: ClassVar[str] = "warnings"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._shown: Any = None
        self._bound: dict[int, Fault] = {}
        """By the line that finds no gradient: where the loop has bound the tensor anew."""

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
                fault = Fault(code, message, place, detail=text.strip())
                bound = self._of_a_pass_before(fault, place) if code == _NO_LEAF else None
                if bound is not None:
                    self._bound[place.line] = bound
                self.run.report(bound or fault)

    def explain(self, error: BaseException, place: Place | None) -> Fault | None:
        """Return the fault behind a gradient that is None, where the next statement fails of it."""
        known = self._bound.get(place.line) if place is not None and "NoneType" in str(error) else None
        return known if isinstance(error, (AttributeError, TypeError)) else None

    def _of_a_pass_before(self, fault: Fault, place: Place) -> Fault | None:
        """Tell the missing gradient where the loop has bound the tensor anew, if it reads it further up."""
        source = self.run.lines.source(place.path) or []
        text = source[place.line - 1] if place.line <= len(source) else ""
        bound = {name: at for name, at in carried_names(self.run.lines, place) if f"{name}.grad" in text}
        for name, at in bound.items():
            if at.line != place.line:
                message = f"the next iteration finds no gradient on `{name}`: from here on it is the result of an "
                message += "operation, and backward() sets .grad on leaves only"
                return replace(fault, message=message, at=at, related=[("grad is None here", place)])
        return None

    def finish(self) -> None:
        """Let warnings be."""
        if self._shown is not None:
            warnings.showwarning = self._shown
