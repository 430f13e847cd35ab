"""Other optimizers, or the same in another form; gradients that are let go."""

from __future__ import annotations

import types
from contextlib import ExitStack
from typing import Any, Callable, ClassVar

import torch

from drygrad.worker.forecast.changes.change import Change, around_making, groups_of, optimizer_class, replaced

_BLOCK = 256
_LEAST = 4096
"""As bitsandbytes has it: a scale for each 256 numbers; tensors with fewer than 4096 keep their states in float32."""
_ADAPTIVE = ("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "RMSprop", "Adadelta", "Lion", "Adafactor")


class Fused(Change):
    """One kernel for all parameters, which needs no memory beside the states."""

    word: ClassVar[str] = "fused"

    def enter(self, left: ExitStack) -> None:
        """Have optimizers that can be fused made so."""

        def made(make: Any, optimizer: Any, params: Any, defaults: dict[str, Any]) -> None:
            if "fused" in defaults and not defaults["fused"]:
                self.touched += 1
                defaults.update(fused=True, foreach=False)
            make(params, defaults)

        around_making(left, made)


class OneByOne(Change):
    """Parameters are updated one after the other: temporaries have the size of one of them."""

    word: ClassVar[str] = "one-by-one"

    def enter(self, left: ExitStack) -> None:
        """Have optimizers made without ``foreach``."""

        def made(make: Any, optimizer: Any, params: Any, defaults: dict[str, Any]) -> None:
            if defaults.get("foreach", False) is not False and not defaults.get("fused"):
                self.touched += 1
                defaults["foreach"] = False
            make(params, defaults)

        around_making(left, made)


class _OtherStep(Change):
    """Adaptive optimizers take steps of another kind."""

    def step(self, optimizer: Any) -> None:
        """Update all parameters."""
        raise NotImplementedError

    def enter(self, left: ExitStack) -> None:
        """Take these steps in the place of the optimizers' own."""
        change, known = self, set[str]()

        def step(self: Any, closure: Callable[[], Any] | None = None) -> Any:
            loss = None
            if closure is not None:
                with torch.enable_grad():
                    loss = closure()
            with torch.no_grad():
                change.step(self)
            return loss

        def made(make: Any, optimizer: Any, params: Any, defaults: dict[str, Any]) -> None:
            kind: Any = optimizer.__class__
            name: str = kind.__name__
            if name in _ADAPTIVE and name not in known:
                known.add(name)
                replaced(left, kind, "step", step)
            self.touched += name in _ADAPTIVE
            make(params, defaults)

        around_making(left, made)


class EightBit(_OtherStep):
    """States of a byte for each number, and a scale for each block of them, as bitsandbytes has them."""

    word: ClassVar[str] = "8-bit"

    def step(self, optimizer: Any) -> None:
        """Make the states, and update in place as the fused kernel does."""
        for parameter in _with_gradients(optimizer):
            state = optimizer.state[parameter]
            if not state:
                small = parameter.numel() < _LEAST
                kind = torch.float32 if small else torch.uint8
                state["state1"], state["state2"] = (torch.zeros_like(parameter, dtype=kind) for _ in range(2))
                if not small:
                    blocks = -(-parameter.numel() // _BLOCK)
                    state["absmax1"], state["absmax2"] = (
                        torch.zeros(blocks, dtype=torch.float32, device=parameter.device) for _ in range(2)
                    )
            parameter.add_(parameter.grad, alpha=0.0)


class Plain(_OtherStep):
    """Stochastic gradient descent, which keeps nothing."""

    word: ClassVar[str] = "sgd"

    def step(self, optimizer: Any) -> None:
        """Step along the gradients."""
        for parameter in _with_gradients(optimizer):
            parameter.add_(parameter.grad, alpha=-1e-3)


def _with_gradients(optimizer: Any) -> list[Any]:
    return [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]


class SetToNone(Change):
    """Gradients are let go where the program fills them with zeros."""

    word: ClassVar[str] = "set-to-none"

    def enter(self, left: ExitStack) -> None:
        """Let ``zero_grad`` do so whatever it is told."""
        for owner in (optimizer_class, torch.nn.Module):
            replaced(left, owner, "zero_grad", self._letting_go(owner.zero_grad))

    def _letting_go(self, own: Any) -> Any:
        def zero_grad(this: Any, set_to_none: bool = True) -> None:
            self.touched += not set_to_none
            own(this, set_to_none=True)

        return zero_grad


class Accumulate(Change):
    """Two passes for each step; more of them take no more memory."""

    word: ClassVar[str] = "accumulate"

    def enter(self, left: ExitStack) -> None:
        """Let every other step, and what sets gradients back for it, be left out."""
        own_zero = optimizer_class.zero_grad
        calls: dict[int, int] = {}

        def zero_grad(this: Any, set_to_none: bool = True) -> None:
            if calls.get(id(this), 0) % 2 == 0:
                own_zero(this, set_to_none=set_to_none)

        def made(make: Any, optimizer: Any, params: Any, defaults: dict[str, Any]) -> None:
            make(params, defaults)
            own = optimizer.step

            def step(this: Any, *args: Any, **kwargs: Any) -> Any:
                calls[id(this)] = calls.get(id(this), 0) + 1
                self.touched += 1
                return own(*args, **kwargs) if calls[id(this)] % 2 == 0 else None

            optimizer.step = types.MethodType(step, optimizer)

        replaced(left, optimizer_class, "zero_grad", zero_grad)
        around_making(left, made)


class StatesInShards(Change):
    """Each of N ranks keeps the optimizer's states of its own parameters only: ZeRO's first stage."""

    word: ClassVar[str] = "states-in-shards"

    def enter(self, left: ExitStack) -> None:
        """Give optimizers the first rank's part of the parameters."""
        ranks = int(self.argument)
        others: dict[int, list[Any]] = {}
        own_zero = optimizer_class.zero_grad

        def made(make: Any, optimizer: Any, params: Any, defaults: dict[str, Any]) -> None:
            groups = groups_of(params)
            whole = [p for group in groups for p in group["params"]]
            kept = {id(p) for p in _first_part(whole, ranks)}
            others[id(optimizer)] = [p for p in whole if id(p) not in kept]
            parts = [{**group, "params": [p for p in group["params"] if id(p) in kept]} for group in groups]
            self.touched += 1
            make([part for part in parts if part["params"]], defaults)

        def zero_grad(this: Any, set_to_none: bool = True) -> None:
            own_zero(this, set_to_none=set_to_none)
            for parameter in others.get(id(this), ()):
                if set_to_none:
                    parameter.grad = None
                elif parameter.grad is not None:
                    parameter.grad.zero_()

        replaced(left, optimizer_class, "zero_grad", zero_grad)
        around_making(left, made)


def _first_part(parameters: list[Any], ranks: int) -> list[Any]:
    """Return the largest of the parts that parameters are dealt into, the large ones first."""
    parts: list[list[Any]] = [[] for _ in range(ranks)]
    sizes = [0] * ranks
    for parameter in sorted(parameters, key=lambda p: -p.numel()):
        least = sizes.index(min(sizes))
        parts[least].append(parameter)
        sizes[least] += parameter.numel()
    return parts[sizes.index(max(sizes))]
