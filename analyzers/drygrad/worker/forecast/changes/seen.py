"""What a program has that could be different: its optimizers, its repeated blocks, the modes that it runs in."""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from typing import Any, ClassVar

import torch

from drygrad.worker.forecast.changes.change import (
    Call,
    Change,
    around_making,
    around_outermost,
    optimizer_class,
    replaced,
)

_CONTAINERS = (torch.nn.ModuleList, torch.nn.Sequential, torch.nn.ModuleDict)
AUTOCAST, EVALUATES, ZEROS, IMAGES, HALF, WORDS = "autocast", "evaluates", "zeros", "images", "half", "words"
_MANY = 8192


class Seen(Change):
    """Takes note, and changes nothing."""

    word: ClassVar[str] = "seen"

    def __init__(self, argument: str = "") -> None:
        super().__init__(argument)
        self.flags: set[str] = set()
        self.optimizers: dict[str, dict[str, Any]] = {}
        self.blocks: dict[str, dict[str, Any]] = {}
        self.linear = 0
        self._known: set[int] = set()

    def enter(self, left: ExitStack) -> None:
        """Look at optimizers as they are made, at modules as they are called first."""
        around_making(left, self._made)
        around_outermost(left, self._called)
        for owner in (optimizer_class, torch.nn.Module):
            replaced(left, owner, "zero_grad", self._letting_go(owner.zero_grad))

    def as_wire(self) -> dict[str, Any]:
        """Return it as it is sent, the largest blocks first."""
        blocks = sorted(self.blocks.values(), key=lambda block: -block["parameters"])
        return {
            "flags": sorted(self.flags),
            "optimizers": list(self.optimizers.values()),
            "blocks": blocks[:10],
            "linear": self.linear,
        }

    def _made(self, make: Call, optimizer: Any, params: Any, defaults: dict[str, Any]) -> None:
        make(params, defaults)
        name = optimizer.__class__.__name__
        fused, foreach = defaults.get("fused"), defaults.get("foreach", False)
        self.optimizers[name] = {
            "name": name,
            "fusible": "fused" in defaults and not fused,
            "foreach": foreach is not False and not fused,
        }

    def _letting_go(self, own: Any) -> Any:
        def zero_grad(this: Any, set_to_none: bool = True) -> None:
            if not set_to_none:
                self.flags.add(ZEROS)
            own(this, set_to_none=set_to_none)

        return zero_grad

    def _called(self, call: Call, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if torch.is_autocast_enabled("cuda"):
            self.flags.add(AUTOCAST)
        if not module.training and torch.is_grad_enabled() and any(p.requires_grad for p in module.parameters()):
            self.flags.add(EVALUATES)
        if id(module) not in self._known:
            self._known.add(id(module))
            self._look(module)
        return call(*args, **kwargs)

    def _look(self, root: Any) -> None:
        if any(p.dtype in (torch.bfloat16, torch.float16) for p in root.parameters()):
            self.flags.add(HALF)
        for module in root.modules():
            self.linear += type(module) is torch.nn.Linear
            many = max(getattr(module, "out_features", 0), getattr(module, "num_embeddings", 0))
            if isinstance(many, int) and many >= _MANY:
                self.flags.add(WORDS)
            if isinstance(module, torch.nn.Conv2d):
                self.flags.add(IMAGES)
            if isinstance(module, _CONTAINERS):
                self._repeated(module)

    def _repeated(self, container: Any) -> None:
        for kind, blocks in _alike(container).items():
            count, parameters = len(blocks), sum(p.numel() for block in blocks for p in block.parameters())
            name = f"{kind.__module__}.{kind.__qualname__}"
            block = self.blocks.setdefault(name, {"name": name, "count": 0, "parameters": 0})
            block["count"] += count
            block["parameters"] += parameters


def repeated(root: Any) -> list[Any]:
    """Return the blocks that containers of a module have several of, but for those within others."""
    containers = [module for module in root.modules() if isinstance(module, _CONTAINERS)]
    blocks = [block for container in containers for alike in _alike(container).values() for block in alike]
    within = {id(child) for block in blocks for child in block.modules() if child is not block}
    return [block for block in blocks if id(block) not in within]


def _alike(container: Any) -> dict[Any, list[Any]]:
    """Return the modules with parameters, made of other modules, of whose class a container has several."""
    found: defaultdict[Any, list[Any]] = defaultdict(list)
    for child in container.children():
        if child.__class__ not in _CONTAINERS and next(child.children(), None) is not None:
            found[child.__class__].append(child)
    return {k: each for k, each in found.items() if len(each) > 1 and next(each[0].parameters(), None) is not None}
