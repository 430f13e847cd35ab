"""``masked_fill_``, which checks devices in words of its own."""

from __future__ import annotations

from typing import Any, Callable

from torch import Tensor

NAMES = ("masked_fill_.Scalar", "masked_fill_.Tensor")


def checked_filling(inner: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that checks devices as a GPU's does, before another that does not."""

    def run(self: Tensor, mask: Tensor, value: Any) -> Any:
        if isinstance(value, Tensor) and value.dim() == 0 and not self.is_cuda:
            raise RuntimeError("masked_fill_: Expected inputs to be on same device")
        if mask.device != self.device:
            raise RuntimeError(
                f"expected self and mask to be on the same device, but got mask on {mask.device} and self on "
                f"{self.device}"
            )
        return inner(self, mask, value)

    return run
