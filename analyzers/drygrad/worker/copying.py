"""Deep copies of what a program has made, with all that its objects hold."""

from __future__ import annotations

import copy
from typing import Any

import torch


def whole_copy(value: Any, memo: dict[int, Any] | None = None) -> Any:
    """Return a deep copy; an optimizer's has all attributes, not only those that torch pickles."""
    kind: Any = torch.optim.Optimizer
    kind.__deepcopy__ = _optimizer
    try:
        return copy.deepcopy(value, {} if memo is None else memo)
    finally:
        del kind.__deepcopy__


def _optimizer(optimizer: torch.optim.Optimizer, memo: dict[int, Any]) -> torch.optim.Optimizer:
    kind = type(optimizer)
    made = memo[id(optimizer)] = kind.__new__(kind)
    held = {name: one for name, one in vars(optimizer).items() if name != "step"}  # a scheduler's steps the original
    vars(made).update(copy.deepcopy(held, memo))
    for ours, theirs in zip(optimizer.param_groups, made.param_groups):
        for parameter, copied in zip(ours["params"], theirs["params"]):
            copied.grad = copy.deepcopy(parameter.grad, memo)  # a parameter's copy has none
    return made
