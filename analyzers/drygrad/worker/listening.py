"""Listening to calls of the library that are no operations: they do what they do, and an instrument is told of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from drygrad.worker.run import Run


@dataclass(frozen=True)
class Heard:
    """One call that has returned: the name that was called, its arguments as they were given, and its result."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any

    def argument(self, name: str, position: int) -> Any:
        """Return an argument that was given by its name or at its position; None where it was not."""
        return self.kwargs.get(name, self.args[position] if position < len(self.args) else None)


class Listening:
    """What one instrument listens to, until it ends."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._originals: list[tuple[Any, str, Any]] = []

    def after(self, owner: Any, name: str, hook: Callable[[Heard], None]) -> None:
        """Tell a method of an instrument of each call of a method or function that has returned."""
        original = getattr(owner, name)

        @wraps(original)
        def heard(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            self._run.call((hook,), Heard(name, args, kwargs, result))
            return result

        self._originals.append((owner, name, original))
        setattr(owner, name, heard)

    def end(self) -> None:
        """Put back what was there, the last first: two may have listened to the same."""
        while self._originals:
            owner, name, original = self._originals.pop()
            setattr(owner, name, original)
