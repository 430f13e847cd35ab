"""Models and parameters with gradients, for code that reads those of an earlier backward pass."""

from __future__ import annotations

from drygrad.dryrun.inputs.nodes import Node, call, group, text
from drygrad.dryrun.inputs.usage import Usage

PARAMETER = "(lambda made: (made.pow(2).sum().backward(), made)[1])(torch.nn.Parameter(torch.randn(4, 3)))"
PARAMETERS = f"[{PARAMETER} for _ in range(2)]"
_SET = "lambda module: [setattr(p, 'grad', torch.ones_like(p)) for p in module.parameters()]"
_SOURCES = ("parameters", "named_parameters")


def has_gradients_read(usage: Usage) -> bool:
    """Say whether the gradients of a model's parameters are read."""
    for name in _SOURCES:
        item = usage.methods[name].item if name in usage.methods else None
        parts = [item, *item.elements.values()] if item is not None else []
        if any("gradient" in part.kinds for part in parts):
            return True
    return False


def with_gradients(model: Node) -> Node:
    """Return a model whose parameters have gradients."""
    step = {**call("apply", {"0": text(_SET, "search")}, "search"), "value": 1, "kind": "step"}
    return group("prepared", {"made": model, "apply": step})
