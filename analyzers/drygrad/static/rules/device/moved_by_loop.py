"""Moves taken out of a loader's functions, and made by the loops over its batches."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from drygrad.model import Edit, Fix
from drygrad.static.context import Context
from drygrad.static.facts.values import UNKNOWN, Object
from drygrad.static.rules.device.batches import BatchLoop, move_at_head, runs_over_loader
from drygrad.static.rules.device.placement import device_expression
from drygrad.static.syntax import parameter_names


def moved_by_loop(loader: ast.Call, moves: Sequence[tuple[ast.Call, str]], ctx: Context) -> Fix | None:
    """Return the fix that leaves batches on the CPU until a loop has them.

    None where a loop has no name for the device, or may have the batches of another loader.
    """
    device = moves[0][1]
    loops = [*_loops_over(loader, ctx)]
    if not loops or any(other != device for _, other in moves) or None in loops:
        return None
    taken = [_left_out(call, ctx) for call, _ in moves]
    made = [_at_head(loop, device, ctx) for loop in loops if loop is not None]
    return ctx.fix("Move the batches in the loop instead", *taken, *made)


def _loops_over(loader: ast.Call, ctx: Context) -> Iterator[BatchLoop | None]:
    """Yield the loops over a loader; None for one of which nobody knows whether it is, where there are several."""
    others = [call for call in ctx.nodes(ast.Call) if call is not loader and _is_loader(ctx.value(call), call)]
    for loop in (*ctx.nodes(ast.For), *ctx.nodes(ast.AsyncFor)):
        value = ctx.value(loop.iter)
        if value is UNKNOWN and runs_over_loader(loop, ctx):
            yield None if others else loop
        elif _is_loader(value, loader):
            yield loop


def _is_loader(value: object, node: ast.Call) -> bool:
    return isinstance(value, Object) and value.type == "torch.utils.data.DataLoader" and value.node is node


def _left_out(call: ast.Call, ctx: Context) -> Edit | None:
    """Return the edit that takes a move out of an expression; None where the call does more than move."""
    match call:
        case ast.Call(func=ast.Attribute(value=receiver, attr="to"), args=[_], keywords=keywords):
            plain = all(keyword.arg == "non_blocking" for keyword in keywords)
            return ctx.replace(call, ctx.source_of(receiver)) if plain else None
        case ast.Call(func=ast.Attribute(value=receiver, attr="cuda"), args=[]):
            return ctx.replace(call, ctx.source_of(receiver))
        case _:
            return None


def _at_head(loop: BatchLoop, device: str, ctx: Context) -> Edit | None:
    function = ctx.function(loop)
    named = [name for name in parameter_names(function) if name == "device"] if function is not None else []
    text = next(iter(named), None) or device_expression(device, loop, ctx)
    return move_at_head(loop, text, ctx) if text is not None else None
