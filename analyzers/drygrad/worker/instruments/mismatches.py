"""Explains errors of devices, dtypes and shapes in the user's words: which operand is wrong, and what it should be."""

from __future__ import annotations

from typing import ClassVar

from drygrad.worker.explain.devices import device_fault
from drygrad.worker.explain.dtypes import dtype_fault
from drygrad.worker.explain.scene import Scene, raised_by_torch
from drygrad.worker.explain.sizes import size_fault
from drygrad.worker.naming import calls_of_error
from drygrad.worker.run import Fault, Instrument, Place

_RAISED = (RuntimeError, ValueError, IndexError, TypeError, AssertionError, NotImplementedError)


class Mismatches(Instrument):
    """Turns torch's complaint about operands that do not meet into a sentence about those of the user's."""

    name: ClassVar[str] = "mismatches"

    def explain(self, error: BaseException, place: Place | None) -> Fault | None:
        """Explain an error by its text, the operation in flight, and what the names at its place are bound to."""
        calls = calls_of_error(self.run, error) if isinstance(error, _RAISED) and raised_by_torch(error) else []
        if not calls:
            return None
        scene = Scene(self.run, error, place, calls)
        return device_fault(scene) or dtype_fault(scene) or size_fault(scene)
