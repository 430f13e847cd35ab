"""The instruments of a run: one file each, one kind of fact each, each can be switched off by its name."""

from __future__ import annotations

import importlib
import pkgutil

from drygrad.worker.run import Instrument


def all_instruments() -> dict[str, type[Instrument]]:
    """Return every instrument by name, in the order of the names."""
    found: dict[str, type[Instrument]] = {}
    for info in pkgutil.iter_modules(__path__, __name__ + "."):
        for value in vars(importlib.import_module(info.name)).values():
            if isinstance(value, type) and issubclass(value, Instrument) and value.__module__ == info.name:
                found[value.name] = value
    return dict(sorted(found.items()))
