"""The private parts of torch that the simulated device rests on, in one place and untyped, as torch itself has them."""

from __future__ import annotations

import os
import re
import sys
from typing import Any, Callable

import torch

C: Any = vars(torch)["_C"]
ops: Any = torch.ops
aten: Any = torch.ops.aten
VERSION = str(torch.__version__)
CUDA_LIBRARY: bool = bool(getattr(C, "_has_cuda", False))
"""Whether this torch was built with CUDA (its own CUDA kernels are then present and must all be overridden)."""

SEQUENCES: Any = (list, tuple)
HOST = torch.device("cpu")
HOST_KEYS: Any = C.DispatchKeySet(C.DispatchKey.CPU)


def shared_library(stem: str) -> str:
    """Path of one of torch's own shared libraries, by its stem (``c10``, ``torch_cpu``)."""
    folder = os.path.join(os.path.dirname(torch.__file__), "lib")
    return os.path.join(folder, f"lib{stem}.{'dylib' if sys.platform == 'darwin' else 'so'}")


def headers() -> str:
    """Folder of the C++ headers that come with torch."""
    return os.path.join(os.path.dirname(torch.__file__), "include")


DESTRUCTORS = 2
"""The entries of a virtual table that a destructor takes in the Itanium ABI."""


def virtual(*header: str) -> list[str]:
    """Return the virtual methods that a header declares, in their order; a destructor begins with ``~``."""
    with open(os.path.join(headers(), *header), encoding="utf-8") as file:
        text = re.sub(r"//[^\n]*|/\*.*?\*/", "", file.read(), flags=re.S)
    return re.findall(r"virtual\s+(?:[\w:&<>\*\s]*?)[\s&\*]?([A-Za-z_~]\w*)\s*\(", text)


def always(value: Any) -> Callable[..., Any]:
    """A function that answers the same whatever it is asked."""

    def answer(*_: Any, **__: Any) -> Any:
        return value

    return answer


def overload(name: str) -> Any:
    """The ``OpOverload`` of an aten name such as ``add.Tensor``, or None where this torch has none."""
    base, _, kind = name.partition(".")
    return getattr(getattr(aten, base, None), kind or "default", None)


def has_kernel(name: str, key: str) -> bool:
    """Whether an aten operator has a kernel of its own at a dispatch key."""
    return bool(C._dispatch_has_kernel_for_dispatch_key("aten::" + name, key))
