"""Parameters, gradients and states in shards over several ranks: torch's ``fully_shard``, for a program without it."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any, ClassVar

import torch

from drygrad.worker.forecast.changes.change import Change, around_making, groups_of
from drygrad.worker.forecast.changes.seen import repeated


class Shards(Change):
    """Each rank keeps its part of the model, and gathers a block's parameters when that is computed."""

    word: ClassVar[str] = "shards"
    gathers_again: ClassVar[bool] = True
    """Whether a block's parameters are let go behind its forward, and gathered once more for backward."""

    def enter(self, left: ExitStack) -> None:
        """Shard the modules whose parameters an optimizer is given, before it is made of them."""
        ranks = int(self.argument)

        def made(make: Any, optimizer: Any, params: Any, defaults: dict[str, Any]) -> None:
            groups = groups_of(params)
            shards = self._sharded([p for group in groups for p in group["params"]], ranks)
            make([{**group, "params": [shards.get(id(p), p) for p in group["params"]]} for group in groups], defaults)

        around_making(left, made)

    def _sharded(self, parameters: list[Any], ranks: int) -> dict[int, Any]:
        """Return the shard of each parameter by the identity of the whole; none where the program has ranks itself."""
        distributed: Any = torch.distributed
        if not self.touched and (distributed.is_initialized() or not all(p.is_cuda for p in parameters)):
            return {}
        if not self.touched:
            distributed.init_process_group("nccl", rank=0, world_size=ranks)
        roots = _roots({id(p) for p in parameters})
        modules = [module for root in roots for module in root.modules()]
        places = [(module, name, p) for module in modules for name, p in module._parameters.items() if p is not None]
        for root in roots:
            self._shard(root)
            self.touched += 1
        return {id(whole): module._parameters[name] for module, name, whole in places}

    def _shard(self, root: Any) -> None:
        shard: Any = importlib.import_module("torch.distributed.fsdp").fully_shard
        options = {} if self.gathers_again else {"reshard_after_forward": False}
        for block in repeated(root):
            shard(block, **options)
        shard(root, **options)  # whose own parameters stay from forward to backward unless it is told otherwise


class ShardsOnce(Shards):
    """The parameters of a block stay from its forward to its backward: what shards save is gradients and states."""

    word: ClassVar[str] = "shards-once"
    gathers_again: ClassVar[bool] = False


def _roots(parameters: set[int]) -> list[Any]:
    """Return the modules that hold parameters, but for those within others."""
    modules: list[Any] = [m for m in gc.get_objects() if isinstance(m, torch.nn.Module)]
    holding = [m for m in modules if any(id(p) in parameters for p in m.parameters())]
    within = {id(child) for module in holding for child in _below(module)}
    return [module for module in holding if id(module) not in within]


def _below(module: Any) -> Iterable[Any]:
    return (child for child in module.modules() if child is not module)
