"""The modules of ``torch.nn``: what their constructors take, which operation a call of one performs."""

# pyright: basic

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.testing._internal.common_modules import module_db


class _Outermost(TorchFunctionMode):
    """Notes the functions of torch that a module calls."""

    def __init__(self) -> None:
        super().__init__()
        self.called: list[Any] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") != "__get__":
            self.called.append(func)
        return func(*args, **(kwargs or {}))


def modules() -> dict[str, Any]:
    """Return a row for each class of ``torch.nn``."""
    tried = {info.name.rpartition(".")[2]: info for info in module_db}
    rows: dict[str, Any] = {}
    for name, cls in sorted(vars(torch.nn).items()):
        if isinstance(cls, type) and issubclass(cls, torch.nn.Module) and cls is not torch.nn.Module:
            row: dict[str, Any] = {
                "signature": _names(cls.__init__),
                "forward": _names(cls.forward),
            }
            row.update(_performed(tried[name]) if name in tried else {})
            rows[name] = row
    return rows


def _names(function: Any) -> list[str]:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


def _performed(info: Any) -> dict[str, Any]:
    operations: set[str | None] = set()
    learns: set[bool] = set()
    for given in info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False, training=True):
        try:
            module = info.module_cls(*given.constructor_input.args, **given.constructor_input.kwargs)
            with _Outermost() as outermost:
                module(*given.forward_input.args, **given.forward_input.kwargs)
        except Exception:  # noqa: BLE001 - some samples need what this machine lacks
            continue
        learns.add(any(True for _ in module.parameters()))
        operations.add(_named(outermost.called))
    found: dict[str, Any] = {}
    if len(operations) == 1 and None not in operations:
        found["operation"] = operations.pop()
    if len(learns) == 1:
        found["learns"] = learns.pop()
    return found


def _named(called: list[Any]) -> str | None:
    """Return the public name of the last function that was called first: what the module hands its input to."""
    for function in called:
        name = getattr(function, "__name__", "")
        for package, owner in (("nn.functional.", torch.nn.functional), ("", torch)):
            if getattr(owner, name, None) is function:
                return package + name
    return None
