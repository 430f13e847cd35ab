"""The forward pass of a training step under a context manager, in the text: activations on the host, autocast."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from drygrad.dryrun.what_if.chains import loaded, stored
from drygrad.dryrun.what_if.micro_batches import backward_of, calls, is_computed, names_of
from drygrad.model import Edit
from drygrad.static.context import Context
from drygrad.static.editing import put_under, written_as
from drygrad.static.syntax import block_of
from drygrad.static.tree import walk


def on_host(ctx: Context) -> list[Edit | None]:
    """Keep on the host what the only training step of a file saves for backward."""
    name = written_as(ctx, "torch.autograd.graph.save_on_cpu")
    passes = [*_passes(ctx)]
    if name is None or len(passes) != 1:
        return []
    return [put_under(ctx, passes[0].first, passes[0].last, f"with {name}(pin_memory=True):")]


def in_bfloat16(ctx: Context) -> list[Edit | None]:
    """Compute the forward pass of the only training step of a file under autocast."""
    autocast, dtype = (written_as(ctx, f"torch.{name}") for name in ("autocast", "bfloat16"))
    passes = [*_passes(ctx)]
    # Backward does not belong under it, and a loss that goes backward in one expression has no statement of its own.
    if autocast is None or dtype is None or len(passes) != 1 or passes[0].has_backward:
        return []
    return [put_under(ctx, passes[0].first, passes[0].last, f'with {autocast}("cuda", dtype={dtype}):')]


class _Pass(NamedTuple):
    first: ast.stmt
    last: ast.stmt
    has_backward: bool


def _passes(ctx: Context) -> Iterator[_Pass]:
    """Yield the statements from the call of a model to what goes backward, or the one statement that does it all."""
    for backward in ctx.nodes(ast.Expr):
        written = backward_of(ctx, backward)
        if written is None:
            continue
        block = block_of(ctx, backward)
        at, given = block.index(backward), _given(ctx, backward)
        end = at - (at > 0 and calls(block[at - 1], "zero_grad"))
        body = next((block[k:end] for k in range(end) if is_computed(ctx, block[k], given | names_of(block[:k]))), None)
        if body is not None and {*loaded(written[0])} & names_of(body):
            yield _Pass(body[0], body[-1], has_backward=False)
        elif is_computed(ctx, backward, given | names_of(block[:at])):
            yield _Pass(backward, backward, has_backward=True)


def _given(ctx: Context, statement: ast.stmt) -> set[str]:
    """Return the names that data may come in by: targets of the loops around a statement, parameters not called."""
    function = ctx.function(statement)
    parameters = walk(function.args) if function is not None else ()
    given = {node.arg for node in parameters if isinstance(node, ast.arg)}
    called = {node.func.id for node in ctx.nodes(ast.Call) if isinstance(node.func, ast.Name)}
    loops = [node for node in ctx.ancestors(statement) if isinstance(node, ast.For)]
    return (given - called) | {name for loop in loops for name in stored(loop.target)}
