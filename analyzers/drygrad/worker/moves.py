"""Moves of whole modules between devices. Apart from the instruments, whose own frames do not count as the user's."""

from __future__ import annotations

from typing import Any

import torch

from drygrad.worker.run import Place

_Module: Any = torch.nn.Module


class Moves:
    """Which move of a module is under way: its parameters are copied one by one, yet the user has asked for one copy.

    While it listens, ``nn.Module._apply``, through which every such move goes, is replaced.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._told: set[tuple[str, Place]] = set()
        self._original: Any = None

    def listen(self) -> None:
        """Begin to follow the moves."""
        original = self._original = _Module._apply

        def apply(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            try:
                return original(module, *args, **kwargs)
            finally:
                self._depth -= 1
                if not self._depth:
                    self._told.clear()

        _Module._apply = apply

    def end(self) -> None:
        """Put back what was replaced."""
        if self._original is not None:
            _Module._apply = self._original

    def is_first(self, kind: str, place: Place) -> bool:
        """Say whether this copy is not one more of the move that is under way."""
        if self._depth and (kind, place) in self._told:
            return False
        self._told.update({(kind, place)} if self._depth else ())
        return True
