"""Fewer digits: autocast, or all of it in half precision; images with their channels last."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, ClassVar

import torch

from drygrad.worker.forecast.changes.change import Call, Change, around_outermost, optimizer_class, replaced

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
_autograd: Any = torch.autograd


class Autocast(Change):
    """Products are computed in half precision; parameters, gradients and states stay as they are."""

    word: ClassVar[str] = "autocast"

    def enter(self, left: ExitStack) -> None:
        """Cast in forward alone: backward and steps run outside, as they do in programs that are right."""
        dtype, device = _DTYPES[self.argument], "cuda" if torch.cuda.is_available() else "cpu"
        own_backward, own_hook = _autograd._engine_run_backward, optimizer_class.profile_hook_step

        def forward(call: Call, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            self.touched += torch.is_autocast_enabled(device)
            return call(*args, **kwargs)

        def backward(*args: Any, **kwargs: Any) -> Any:
            with torch.autocast(device, enabled=False):
                return own_backward(*args, **kwargs)

        def hooked(step: Any) -> Any:
            inner = own_hook(step)

            def outside(*args: Any, **kwargs: Any) -> Any:
                with torch.autocast(device, enabled=False):
                    return inner(*args, **kwargs)

            return outside

        replaced(left, _autograd, "_engine_run_backward", backward)
        replaced(left, optimizer_class, "profile_hook_step", staticmethod(hooked))
        around_outermost(left, forward)
        left.enter_context(torch.autocast(device, dtype=dtype))


class Half(Change):
    """Everything is in half precision: parameters, activations, gradients and states."""

    word: ClassVar[str] = "half"

    def enter(self, left: ExitStack) -> None:
        """Make tensors so unless they are told otherwise, and cast what modules are given."""
        dtype = _DTYPES[self.argument]

        def cast(value: Any) -> Any:
            if isinstance(value, torch.Tensor) and value.dtype in (torch.float32, torch.float64):
                return value.to(dtype)
            return value

        def forward(call: Call, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            self.touched += 1
            return call(*map(cast, args), **{name: cast(value) for name, value in kwargs.items()})

        around_outermost(left, forward)
        left.callback(torch.set_default_dtype, torch.get_default_dtype())
        torch.set_default_dtype(dtype)


class ChannelsLast(Change):
    """Images, and the weights of convolutions, lie in memory with their channels last."""

    word: ClassVar[str] = "channels-last"

    def enter(self, left: ExitStack) -> None:
        """Lay out modules at their first call, and what they are given."""
        laid: set[int] = set()

        def last(value: Any) -> Any:
            if isinstance(value, torch.Tensor) and value.dim() == 4 and value.is_floating_point():
                return value.contiguous(memory_format=torch.channels_last)
            return value

        def forward(call: Call, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if not any(isinstance(value, torch.Tensor) and value.dim() == 4 for value in args):
                return call(*args, **kwargs)
            if id(module) not in laid:
                laid.add(id(module))
                self.touched += any(parameter.dim() == 4 for parameter in module.parameters())
                module.to(memory_format=torch.channels_last)
            return call(*map(last, args), **kwargs)

        around_outermost(left, forward)
