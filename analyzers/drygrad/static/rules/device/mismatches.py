"""The operands of an operation whose tensors are on different devices, and which rule speaks of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from drygrad.static.context import Context
from drygrad.static.facts.events import DeviceMismatch
from drygrad.static.facts.operations import FACTORIES
from drygrad.static.facts.values import Tensor


@dataclass(frozen=True)
class Operand:
    """A tensor that an operation is given, and the device that it is on."""

    node: ast.expr
    tensor: Tensor
    device: str


def operands_of(event: DeviceMismatch, ctx: Context) -> list[Operand]:
    """Return the operands whose device is known, those in lists included, scalars of the CPU left out."""
    return [operand for node in event.expressions for operand in _placed(node, ctx)]


def _placed(node: ast.expr, ctx: Context) -> Iterator[Operand]:
    if isinstance(node, (ast.List, ast.Tuple)):
        for element in node.elts:
            yield from _placed(element, ctx)
        return
    tensor = ctx.tensor(node)
    if tensor is not None and tensor.device is not None and not (tensor.device == "cpu" and tensor.shape == ()):
        yield Operand(node, tensor, tensor.device)


def module_method(node: ast.AST, ctx: Context) -> ast.FunctionDef | None:
    """Return the method of an ``nn.Module`` around a node; None elsewhere and in ``__init__``."""
    function = ctx.function(node)
    cls = ctx.parent(function) if function is not None else None
    if not isinstance(function, ast.FunctionDef) or not isinstance(cls, ast.ClassDef) or function.name == "__init__":
        return None
    return function if ctx.is_module_class(cls) else None


def is_made_in(operand: Operand, function: ast.AST, ctx: Context) -> bool:
    """Say whether a factory in a function made a tensor."""
    origin = operand.tensor.origin
    made = origin is not None and origin.operation in FACTORIES
    return made and origin is not None and ctx.function(origin.node) is function


def is_plain_attribute(operand: Operand, ctx: Context) -> bool:
    """Say whether an operand is, or is part of, a tensor of ``self`` that does not move with its module."""
    node = operand.node
    while isinstance(node, ast.Subscript):
        node = node.value
    on_self = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    tensor = ctx.tensor(node)
    return on_self and tensor is not None and not tensor.parameter and not tensor.buffer


def belongs_to_module(operand: Operand, ctx: Context) -> bool:
    """Say whether the fault is that a module's method makes or keeps a tensor apart from the module's device."""
    function = module_method(operand.node, ctx)
    return function is not None and (is_made_in(operand, function, ctx) or is_plain_attribute(operand, ctx))
