"""Dtypes that the host's kernels take and a GPU's do not, and the names of the kernels that say so.

The lists follow torch's own database of operators (``dtypes`` beside ``dtypesIfCUDA``); a GPU refuses with
``"addmm_cuda" not implemented for 'Long'``, whatever the host's kernel is called.
"""

from __future__ import annotations

import re

import torch
from torch import Tensor

NAMES = {
    torch.uint8: "Byte",
    torch.int8: "Char",
    torch.int16: "Short",
    torch.int32: "Int",
    torch.int64: "Long",
    torch.bool: "Bool",
    torch.float16: "Half",
    torch.bfloat16: "BFloat16",
    torch.complex32: "ComplexHalf",
}
INTEGERS = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool})
HALVES = frozenset({torch.float16, torch.bfloat16})
INTEGERS_OF_CUDNN = frozenset({torch.uint8, torch.int8, torch.int32})

REFUSED = {
    "mm": ("addmm_cuda", INTEGERS),
    "addmm": ("addmm_cuda", INTEGERS),
    "_addmm_activation": ("addmm_cuda", INTEGERS),
    "addbmm": ("baddbmm_cuda", INTEGERS),
    "bmm": ("baddbmm_cuda", INTEGERS),
    "baddbmm": ("baddbmm_cuda", INTEGERS),
    "addmv": ("addmv_impl_cuda", INTEGERS),
    "dot": ("dot", INTEGERS),
    "vdot": ("vdot", INTEGERS),
    "avg_pool2d": ("avg_pool2d_out_cuda_frame", INTEGERS),
    "avg_pool3d": ("avg_pool3d_out_cuda", INTEGERS),
    "max_pool2d_with_indices": ("max_pool2d_with_indices_out_cuda_frame", INTEGERS),
    "max_pool3d_with_indices": ("max_pool3d_with_indices_out_frame", INTEGERS),
    "native_dropout": ("fused_dropout", INTEGERS),
    "native_dropout_backward": ("masked_scale", INTEGERS),
    "igamma": ("igamma_cuda", HALVES),
    "igammac": ("igammac_cuda", HALVES),
    "angle": ("angle_cuda", HALVES),
    "histc": ("histc", HALVES),
}
"""By operator: the kernel that a GPU names, and the dtypes that it refuses though the host's takes them."""

NO_SHAPES = frozenset({"native_dropout"})
"""Those that look at no shapes, so that dtypes come first."""

RENAMED = {
    "_softmax": "host_softmax",
    "_log_softmax": "host_softmax",
    "gelu": "GeluCUDAKernelImpl",
    "nll_loss_forward": "nll_loss_forward_reduce_cuda_kernel_2d",
}
"""Kernels that refuse the same dtypes on both sides, by another name on a GPU."""

# A GPU has these in single and double precision only, as the host has.
FULL_PRECISION = re.compile(
    r"aten::(?:_?linalg_|special_|cholesky|geqrf|ormqr|orgqr|triangular_solve|lu_unpack|lu_solve|igamma|_ctc_loss|"
    r"_cdist|_pdist)"
)
PRODUCTS = frozenset({"mm", "addmm"})
FACTORS = "expected m1 and m2"  # as the host calls what a GPU calls mat1 and mat2
TARGET = re.compile(r"expected scalar type Long but found (\w+)")  # until torch 2.12
NOT_IMPLEMENTED = re.compile(r"""^"(\w+)" not implemented for '(\w+)'""")


def base(name: str) -> str:
    """The operator of an overload's name, without namespace and the mark of writing in place."""
    plain = name.partition("::")[2]
    return plain[:-1] if plain.endswith("_") and not plain.endswith("__") else plain


def not_implemented(kernel: str, dtype: str) -> NotImplementedError:
    """The error of a kernel that has no version for a dtype."""
    return NotImplementedError(f"\"{kernel}\" not implemented for '{dtype}'")


def in_words_of_cuda(error: RuntimeError, name: str) -> RuntimeError:
    """The same error with the names that the kernel and its arguments have on a GPU."""
    if base(name) in PRODUCTS and FACTORS in str(error):
        return type(error)(str(error).replace(FACTORS, "expected mat1 and mat2"))
    target = TARGET.match(str(error))
    if target is not None and base(name) == "nll_loss_forward":
        return not_implemented("nll_loss_forward_reduce_cuda_kernel_2d_index", target[1])
    match = NOT_IMPLEMENTED.match(str(error))
    if match is None:
        return error
    known = REFUSED[base(name)][0] if base(name) in REFUSED else RENAMED.get(base(name))
    return not_implemented(known or match[1].replace("_cpu", "_cuda"), match[2])


def check(name: str, tensor: Tensor) -> None:
    """Raise where a GPU has no kernel for a tensor's dtype and the host has."""
    kernel, refused = REFUSED[name]
    if tensor.dtype in refused:
        raise not_implemented(kernel, NAMES[tensor.dtype])


def check_convolution(tensor: Tensor) -> None:
    """Raise as cuDNN's side of torch does for integers."""
    if tensor.dtype in INTEGERS_OF_CUDNN:
        raise RuntimeError("GET was unable to find an engine to execute this computation")
    if tensor.dtype in INTEGERS:
        raise RuntimeError(f"getCudnnDataTypeFromScalarType() not supported for {NAMES[tensor.dtype]}")
