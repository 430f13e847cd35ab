"""Operators that are not torch's own: whose they are, what their Python does, and what their results tell."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import importlib
from typing import Any

_TORCHS = frozenset(
    "_c10d_functional _c10d_functional_autograd _dtensor _native _quantized _test ao aten bucketing c10d "
    "c10d_functional debug_mode_ops debugprims device_mesh export flex_lib fsdp inductor inductor_prims mkl mkldnn "
    "mkldnn_prepacked onednn prim prims profiler quantization quantized quantized_decomposed rngprims "
    "semi_structured sparse static_runtime streams symm_mem torch_attn triton".split()
)
"""The namespaces of the operators that come with torch."""


def is_custom(name: str) -> bool:
    """Say whether an operator was defined by a program or a library."""
    return name.partition("::")[0] not in _TORCHS


def python_of(name: str) -> Any:
    """Return the function that a custom operator was made of in Python; None where there is none."""
    own: Any = importlib.import_module("torch._library.custom_ops").OPDEFS.get(name)
    return own._init_fn if own is not None else None


def is_described(name: str) -> bool:
    """Say whether a custom operator has a function that tells the shapes of its results."""
    own: Any = importlib.import_module("torch._library.custom_ops").OPDEFS.get(name)
    return own is None or own._abstract_fn is not None
