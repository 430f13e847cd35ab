"""Tensors that a module's forward makes on the CPU and keeps on ``self``, where a later line meets them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from drygrad.static.context import Context
from drygrad.static.facts.operations import VIEWS
from drygrad.static.facts.values import TorchCall
from drygrad.static.rules.device.meetings import Meeting, factory_of, input_names, is_input, operands_of_one_device
from drygrad.static.tree import walk

_OVERRIDES = frozenset({"to", "cuda", "_apply"})
_KEEPS_PLACE = VIEWS | frozenset({"bool", "float", "long", "half", "double", "int", "contiguous", "clone", "detach"})


def kept_meetings(methods: Sequence[ast.FunctionDef], ctx: Context) -> Iterator[tuple[ast.FunctionDef, Meeting]]:
    """Yield where a tensor kept on ``self`` meets an input or a parameter, and the method that has made it.

    It counts if all that the methods below ``forward`` assign to the attribute was made on the CPU.
    """
    by_name = {method.name: method for method in methods}
    if not _OVERRIDES.isdisjoint(by_name) or "forward" not in by_name:
        return
    reached = _reached("forward", by_name)
    kept = dict(_kept(reached, ctx))
    for method in reached if kept else ():
        inputs = input_names(method, ctx)
        for node in walk(method):
            operands = operands_of_one_device(node, ctx) if isinstance(node, ast.expr) else []
            other = next((operand for operand in operands if is_input(operand, inputs, ctx)), None)
            for operand in operands if other is not None else ():
                found = kept.get(_attribute(operand) or "")
                if found is not None and operand is not other and isinstance(node, ast.expr) and other is not None:
                    maker, factory = found
                    yield maker, Meeting(node, factory, other, operand)


def _reached(name: str, methods: dict[str, ast.FunctionDef]) -> list[ast.FunctionDef]:
    """Return a method and those of its own object that it calls."""
    found, waiting = [methods[name]], [methods[name]]
    while waiting:
        for called in _own_calls(waiting.pop()):
            method = methods.get(called)
            if method is not None and method not in found:
                found.append(method)
                waiting.append(method)
    return found


def _own_calls(method: ast.FunctionDef) -> Iterator[str]:
    for node in walk(method):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
                yield name
            case _:
                pass


def _kept(methods: Sequence[ast.FunctionDef], ctx: Context) -> Iterator[tuple[str, tuple[ast.FunctionDef, TorchCall]]]:
    found: dict[str, list[tuple[ast.FunctionDef, TorchCall] | None]] = {}
    for method in methods:
        for node in walk(method):
            for name, value in _assigned(node):
                factory = factory_of(ctx.tensor(value)) if value is not None else None
                found.setdefault(name, []).append((method, factory) if factory is not None else None)
    for name, made in found.items():
        first = made[0]
        if first is not None and None not in made:
            yield name, first


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the attributes of ``self`` that a node assigns to, with what they get where that is one expression."""
    match node:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
            yield name, value
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="self"), attr="register_buffer"),
            args=[ast.Constant(value=str(name)), value, *_],
        ):
            yield name, value
        case ast.Assign(targets=targets):
            yield from ((name, None) for target in targets for name in _stored(target))
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target) | ast.For(target=target):
            yield from ((name, None) for name in _stored(target))
        case _:
            return


def _stored(target: ast.expr) -> Iterator[str]:
    for node in walk(target):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _attribute(node) is not None:
            yield node.attr


def _attribute(node: ast.expr) -> str | None:
    """Return the attribute of ``self`` that an expression is, or is a part or a view of."""
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
        case ast.Subscript(value=inner) | ast.UnaryOp(operand=inner):
            return _attribute(inner)
        case ast.Compare(left=inner, comparators=[ast.Constant()]):
            return _attribute(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in _KEEPS_PLACE:
            return _attribute(inner)
        case _:
            return None
