# pyright: basic
"""Functions that torch still names and that only raise, or warn that they will go: in torch's own words."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import torch

_PACKAGES = """
    torch torch.linalg torch.fft torch.special torch.nn torch.nn.functional torch.nn.init torch.nn.utils
    torch.nn.parallel torch.cuda torch.cuda.amp torch.cpu.amp torch.optim torch.optim.lr_scheduler torch.utils.data
    torch.autograd torch.distributed torch.jit torch.onnx torch.Tensor
""".split()


def gone() -> dict[str, str]:
    """Return what only raises, by its public name."""
    found = {name: message for name, function in _public() if (message := _raised(function)) is not None}
    methods = {f"torch.Tensor.{name.rpartition('.')[2]}": message for name, message in found.items()}
    return found | {
        name: message for name, message in methods.items() if hasattr(torch.Tensor, name.rpartition(".")[2])
    }


def going() -> dict[str, str]:
    """Return what is marked as deprecated, by its public name."""
    return {name: _plain(message) for name, function in _public() if isinstance(message := _deprecated(function), str)}


def _deprecated(function: Any) -> object:
    made = function.__init__ if isinstance(function, type) else None
    return getattr(function, "__deprecated__", None) or getattr(made, "__deprecated__", None)


def _public() -> Iterator[tuple[str, Any]]:
    seen: set[int] = set()
    for package in _PACKAGES:
        owner: Any = torch.Tensor if package == "torch.Tensor" else importlib.import_module(package)
        for name in sorted(vars(owner)):
            value = inspect.getattr_static(owner, name)
            if not name.startswith("_") and callable(value) and id(value) not in seen:
                seen.add(id(value))
                yield f"{package}.{name}", value


def _raised(function: Any) -> str | None:
    """Return what a function raises where it does nothing else."""
    code = getattr(function, "__code__", None)
    if code is None or "RuntimeError" not in code.co_names or len(code.co_names) > 1:
        return None
    return next((_plain(text) for text in code.co_consts if isinstance(text, str) and "removed" in text), None)


def _plain(message: str) -> str:
    return " ".join(message.split())
