"""Checkpoints that torch.load refuses: since 2.6 it takes tensors and plain values only, if not told otherwise."""

from __future__ import annotations

import os
import re
from functools import wraps
from typing import Any, ClassVar, cast

import torch

from drygrad.worker.run import Fault, Instrument, Place, Run

_REFUSAL = "Weights only load failed"
_KIND = re.compile(r"GLOBAL (\S+) was not an allowed|Unsupported (?:global|class) (\S+)")


class Checkpoints(Instrument):
    """Remembers where each file was saved."""

    name: ClassVar[str] = "checkpoints"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._saved: dict[str, Place | None] = {}
        self._loading: str | None = None
        self._restore: tuple[Any, Any] | None = None

    def start(self) -> None:
        """Listen to ``torch.save`` and ``torch.load``."""
        library: Any = torch
        save, load = self._restore = (library.save, library.load)

        @wraps(save)
        def saving(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
            self._saved[_key(f)] = self.run.lines.caller()
            return save(obj, f, *args, **kwargs)

        @wraps(load)
        def loading(f: Any, *args: Any, **kwargs: Any) -> Any:
            self._loading = _key(f)
            return load(f, *args, **kwargs)

        library.save, library.load = saving, loading

    def explain(self, error: BaseException, place: Place | None) -> Fault | None:
        """Say what a refused file holds, where that was written if this run has written it."""
        text = str(error)
        if _REFUSAL not in text:
            return None
        found = _KIND.search(text)
        kind = (found[1] or found[2]).rstrip(".") if found else "more than tensors and plain values"
        saved = self._saved.get(self._loading or "")
        own = not kind.startswith(("__main__", "torch."))
        at = saved if saved is not None and own else place
        message = (
            f"the file holds {kind}, which torch.load refuses since 2.6, where weights_only=True became the default"
        )
        related = [(text, p) for text, p in (("saved here", saved), ("loaded here", place)) if p and p != at]
        return Fault("DG805", message, at, detail=text, related=related, facts={"kind": kind})

    def finish(self) -> None:
        """Listen no more."""
        if self._restore is not None:
            library: Any = torch
            library.save, library.load = self._restore


def _key(file: Any) -> str:
    """Return what names a file, or an open one."""
    is_path = isinstance(file, (str, os.PathLike))
    return os.path.abspath(str(cast("Any", file))) if is_path else f"#{id(file)}"
