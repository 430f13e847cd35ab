"""Another setting of what a program runs in."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import ClassVar

from drygrad.worker.forecast.changes.change import Change

_VARIABLE = "PYTORCH_CUDA_ALLOC_CONF"


class Expandable(Change):
    """The allocator maps memory into segments that grow, and so keeps less that is in nobody's use."""

    word: ClassVar[str] = "expandable"

    def enter(self, left: ExitStack) -> None:
        """Set the variable, beside what else it says."""
        given = {name: os.environ.pop(name) for name in ("PYTORCH_ALLOC_CONF", _VARIABLE) if name in os.environ}
        said = next(iter(given.values()), "")
        self.touched += "expandable_segments:True" not in said
        os.environ[_VARIABLE] = f"{said},expandable_segments:True" if said else "expandable_segments:True"

        def back() -> None:
            del os.environ[_VARIABLE]
            os.environ.update(given)

        left.callback(back)
