"""Torch operations of our own, which no mode shall see."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch

_no_function: Any = torch._C.DisableTorchFunction  # pyright: ignore[reportPrivateUsage]
_no_dispatch: Any = torch._C._DisableTorchDispatch  # pyright: ignore


@contextmanager
def quiet() -> Generator[None]:
    """Keep the modes of the run out of what happens inside the block."""
    with _no_function(), _no_dispatch():
        yield
