"""One difference from a program as it is written: what a what-if traces once more."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Any, Callable, ClassVar, cast

import torch

SAME, ROUNDED, OTHER = "same", "rounded", "other"
"""What becomes of results: the same up to the order of additions, the same in fewer digits, something else."""

Call = Callable[..., Any]
Around = Callable[[Call, Any, "tuple[Any, ...]", "dict[str, Any]"], Any]
_module: Any = torch.nn.Module
optimizer_class: Any = torch.optim.Optimizer


class Change:
    """A change that holds while a program runs. ``argument`` is what stands behind the colon of its word."""

    word: ClassVar[str]

    def __init__(self, argument: str = "") -> None:
        self.argument = argument
        self.touched = 0
        """At how many places it has made a difference; a program that has none is not what it is for."""

    def enter(self, left: ExitStack) -> None:
        """Begin; ``left`` ends it."""
        raise NotImplementedError


def replaced(left: ExitStack, owner: Any, name: str, value: Any) -> None:
    """Put another attribute in place of an owner's, until ``left``."""
    own = cast("dict[str, Any]", vars(owner)).get(name, left)
    setattr(owner, name, value)
    if own is left:
        left.callback(delattr, owner, name)
    else:
        left.callback(setattr, owner, name, own)


def around_calls(left: ExitStack, around: Around) -> None:
    """Have each call of a module done by ``around(call, module, args, kwargs)``."""
    own = _module.__call__

    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        return around(partial(own, self), self, args, kwargs)

    replaced(left, _module, "__call__", called)


def around_outermost(left: ExitStack, around: Around) -> None:
    """Have each call of a module that no other module makes done by ``around(call, module, args, kwargs)``."""
    depth = 0

    def counted(call: Call, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        nonlocal depth
        depth += 1
        try:
            return around(call, module, args, kwargs) if depth == 1 else call(*args, **kwargs)
        finally:
            depth -= 1

    around_calls(left, counted)


def around_making(left: ExitStack, around: Callable[[Call, Any, Any, dict[str, Any]], None]) -> None:
    """Have each optimizer made by ``around(make, optimizer, parameters, defaults)``."""
    own = optimizer_class.__init__

    def made(self: Any, params: Any, defaults: dict[str, Any]) -> None:
        around(partial(own, self), self, params, defaults)

    replaced(left, optimizer_class, "__init__", made)


def groups_of(params: Any) -> list[dict[str, Any]]:
    """Return what an optimizer is given as groups of options, each with a list of parameters."""
    given: list[Any] = list(params)
    groups = given if given and isinstance(given[0], dict) else [{"params": given}]
    return [{**group, "params": _listed(group["params"])} for group in groups]


def _listed(params: Any) -> list[Any]:
    items: list[Any] = [params] if isinstance(params, torch.Tensor) else list(params)
    return [item[1] if isinstance(item, tuple) else item for item in items]
