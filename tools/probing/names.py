"""The names that torch's packages have, for those that they no longer have."""

# pyright: basic

from __future__ import annotations

import importlib
import pkgutil

_PACKAGES = """
    torch torch.linalg torch.fft torch.special torch.nn torch.nn.functional torch.nn.init torch.nn.utils
    torch.optim torch.optim.lr_scheduler torch.utils torch.utils.data torch.autograd torch.distributions
""".split()
"""Packages whose names do not depend on how torch was built."""


def names() -> dict[str, list[str]]:
    """Return the names and the modules of each package."""
    return {package: sorted(_names(package)) for package in _PACKAGES}


def _names(package: str) -> set[str]:
    module = importlib.import_module(package)
    inner = (found.name for found in pkgutil.iter_modules(getattr(module, "__path__", ())))
    return {name for name in {*dir(module), *inner} if not name.startswith("__")}
