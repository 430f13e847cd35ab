"""What ``torch.autograd.grad`` returns."""

from __future__ import annotations

import ast
from dataclasses import replace

from drygrad.static.facts.values import UNKNOWN, Arguments, Constant, Origin, Sequence, Tensor, Value

GRADIENT = "autograd_grad"
"""The operation that made a tensor which ``torch.autograd.grad`` returned."""


def gradients(node: ast.Call, arguments: Arguments) -> Value:
    """Return the gradients of the inputs: with a graph of their own only where ``create_graph`` asks for it."""
    inputs = arguments.get("inputs", 1) or UNKNOWN
    wanted = arguments.get("create_graph", 4)
    recorded = wanted.value is True if isinstance(wanted, Constant) else (False if wanted is None else None)
    given = (inputs,) if isinstance(inputs, Tensor) else inputs.items if isinstance(inputs, Sequence) else None
    if given is None:
        return Sequence("tuple", None, _gradient(UNKNOWN, node, recorded))
    return Sequence("tuple", tuple(_gradient(value, node, recorded) for value in given))


def _gradient(value: Value, node: ast.Call, recorded: bool | None) -> Tensor:
    like = value if isinstance(value, Tensor) else Tensor()
    return replace(
        like,
        requires_grad=recorded,
        leaf=None if recorded is None else not recorded,
        origin=Origin(GRADIENT, node),
        storage=node,
        range=None,
        cut=node if recorded is False else None,
        parameter=False,
        buffer=False,
    )
