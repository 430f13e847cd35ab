"""What is kept on the host: activations until backward comes to them, or the states of optimizers with their steps."""

from __future__ import annotations

import types
from contextlib import ExitStack
from typing import Any, ClassVar

import torch

from drygrad.worker.forecast.changes.change import Change, around_making, groups_of, optimizer_class, replaced


class OffloadActivations(Change):
    """``torch.autograd.graph.save_on_cpu`` around the program."""

    word: ClassVar[str] = "save-on-cpu"

    def enter(self, left: ExitStack) -> None:
        """Keep on the host whatever backward will ask for."""
        hooks: Any = torch.autograd.graph.save_on_cpu(pin_memory=True)
        pack = hooks.pack_hook

        def packed(tensor: Any) -> Any:
            self.touched += tensor.is_cuda
            return pack(tensor)

        hooks.pack_hook = packed
        left.enter_context(hooks)


class OffloadStates(Change):
    """Optimizers step on the host, with copies of the parameters, as ``CPUOffloadOptimizer`` of torchao does."""

    word: ClassVar[str] = "states-on-cpu"

    def enter(self, left: ExitStack) -> None:
        """Give optimizers copies on the host; each step takes gradients there, and brings parameters back."""
        copies: dict[int, list[tuple[Any, Any]]] = {}
        own_zero = optimizer_class.zero_grad

        def zero_grad(this: Any, set_to_none: bool = True) -> None:
            own_zero(this, set_to_none=set_to_none)
            for parameter, _ in copies.get(id(this), ()):
                if set_to_none:
                    parameter.grad = None
                elif parameter.grad is not None:
                    parameter.grad.zero_()

        def made(make: Any, optimizer: Any, params: Any, defaults: dict[str, Any]) -> None:
            groups = groups_of(params)
            pairs = [(p, torch.nn.Parameter(p.detach().cpu())) for group in groups for p in group["params"]]
            on_host = {id(parameter): copy for parameter, copy in pairs}
            if not all(parameter.is_cuda for parameter, _ in pairs):
                make(groups, defaults)
                return
            self.touched += 1
            copies[id(optimizer)] = pairs
            defaults.update({name: None for name in ("fused", "foreach") if defaults.get(name)})
            make([{**group, "params": [on_host[id(p)] for p in group["params"]]} for group in groups], defaults)
            optimizer.step = types.MethodType(_step_on_host(optimizer.step, pairs), optimizer)

        replaced(left, optimizer_class, "zero_grad", zero_grad)
        around_making(left, made)


def _step_on_host(own: Any, pairs: list[tuple[Any, Any]]) -> Any:
    def step(this: Any, *args: Any, **kwargs: Any) -> Any:
        with torch.no_grad():
            for parameter, copy in pairs:
                copy.grad = parameter.grad.cpu() if parameter.grad is not None else None
            result = own(*args, **kwargs)
            for parameter, copy in pairs:
                parameter.copy_(copy, non_blocking=True)
                copy.grad = None
        return result

    return step
