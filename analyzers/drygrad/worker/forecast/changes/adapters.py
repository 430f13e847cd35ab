"""Fine-tuning of small matrices beside frozen layers."""

from __future__ import annotations

import gc
from contextlib import ExitStack
from typing import Any, ClassVar

import torch
from torch.nn import functional

from drygrad.worker.forecast.changes.change import Change, around_making, groups_of


class Adapters(Change):
    """LoRA: all parameters are frozen, and each linear layer has two matrices of a low rank beside it."""

    word: ClassVar[str] = "lora"

    def enter(self, left: ExitStack) -> None:
        """Give optimizers the parameters of adapters, which are made then."""
        rank = int(self.argument)

        def made(make: Any, optimizer: Any, params: Any, defaults: dict[str, Any]) -> None:
            groups = groups_of(params)
            own = {id(parameter): parameter for group in groups for parameter in group["params"]}
            linear = {id(layer.weight): layer for layer in _linear_layers()}
            layers = [linear[number] for number in own if number in linear]
            if not layers:
                make(groups, defaults)
                return
            for parameter in own.values():
                parameter.requires_grad_(False)
            self.touched += len(layers)
            make([parameter for layer in layers for parameter in _adapted(layer, rank)], defaults)

        around_making(left, made)


def _linear_layers() -> list[Any]:
    return [item for item in gc.get_objects() if type(item) is torch.nn.Linear]


def _adapted(layer: Any, rank: int) -> tuple[Any, Any]:
    """Let a layer add what its adapter gives, and return the adapter's parameters."""
    like = {"dtype": layer.weight.dtype, "device": layer.weight.device}
    down = torch.nn.Parameter(torch.empty(rank, layer.in_features, **like))
    up = torch.nn.Parameter(torch.zeros(layer.out_features, rank, **like))

    def forward(given: Any) -> Any:
        return functional.linear(given, layer.weight, layer.bias) + functional.linear(
            functional.linear(given, down), up
        )

    layer.forward = forward
    return down, up
