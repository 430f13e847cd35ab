"""The tensor types of old: ``torch.cuda.FloatTensor`` and its kin."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

DTYPES = {
    "Float": torch.float32,
    "Double": torch.float64,
    "Half": torch.float16,
    "BFloat16": torch.bfloat16,
    "Byte": torch.uint8,
    "Char": torch.int8,
    "Short": torch.int16,
    "Int": torch.int32,
    "Long": torch.int64,
    "Bool": torch.bool,
}


class TensorType(type):
    """The kind of such a type: calling it makes a tensor, and tensors of its dtype on a device are its instances."""

    dtype: torch.dtype

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and instance.is_cuda and instance.dtype is cls.dtype

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make a tensor from sizes or from data, as the host's type of the same dtype does."""
        host: Any = getattr(torch, cls.__name__.rpartition(".")[2])
        return host(*args, **kwargs).cuda()


def patch() -> None:
    """Put the types where torch has those that say they are not available."""
    module: Any = torch.cuda
    for stem, dtype in DTYPES.items():
        # Tensor.type() reads the type's name, so it must be the whole one.
        made = TensorType(f"torch.cuda.{stem}Tensor", (), {"dtype": dtype, "is_cuda": True})
        setattr(module, f"{stem}Tensor", made)
