"""A loss over a vocabulary in chunks of positions, in the text: the numbers for each word are never there at once."""

from __future__ import annotations

import ast

from drygrad.dryrun.what_if.chains import Chain, made_by
from drygrad.model import Edit
from drygrad.static.context import Context
from drygrad.static.editing import as_operand, free_name, inserted, written_as
from drygrad.static.numbers import number_of

_LOSS, _LAYER = "torch.nn.functional.cross_entropy", "torch.nn.Linear"
_CHUNK = 1024
_IGNORED = -100
"""Positions with this target do not count, by default."""


def in_chunks(ctx: Context) -> list[Edit | None]:
    """Rewrite each loss of a linear layer's results that nothing else reads; ``checkpoint`` is to be imported."""
    edits: list[Edit | None] = []
    for call in ctx.nodes(ast.Call):
        if ctx.name(call.func) == _LOSS:
            edits += _rewritten(ctx, call)
    return edits


def _rewritten(ctx: Context, call: ast.Call) -> list[Edit | None]:
    parts = _flat(call)
    if parts is None:
        return []
    chain = Chain(ctx, call)
    logits, width, target = parts
    layer = chain.follow(logits)
    chain.read(width)
    match layer:
        case ast.Call(ast.Attribute(ast.Name("self"), name) as head, [given], []) if made_by(ctx, call, name) == _LAYER:
            pass
        case _:
            return []
    ignored = _ignored(ctx, call)
    function = free_name(ctx, chain.statement, "summed_loss", "loss_of_chunk")
    rows, wanted = (free_name(ctx, chain.statement, *names) for names in (("hidden", "rows"), ("wanted", "labels")))
    stack = written_as(ctx, "torch.stack")
    if ignored is None or None in (function, rows, wanted, stack) or not chain.holds([given, head, target]):
        return []
    before = [
        f"def {function}({rows}, {wanted}):",
        f"    return {ctx.source_of(call.func)}({ctx.source_of(head)}({rows}), {wanted}, "
        f'ignore_index={ignored}, reduction="sum")',
        f"{rows}, {wanted} = {as_operand(ctx, given)}.flatten(0, -2), {ctx.source_of(target)}",
        f"chunks = zip({rows}.split({_CHUNK}), {wanted}.split({_CHUNK}))",
        f"losses = [checkpoint({function}, *chunk, use_reentrant=False) for chunk in chunks]",
    ]
    if free_name(ctx, chain.statement, "chunks") is None or free_name(ctx, chain.statement, "losses") is None:
        return []
    text = f"{ctx.source.newline}{ctx.source.indentation(chain.statement.lineno)}".join(before)
    total = f"{stack}(losses).sum() / ({wanted} != {ignored}).sum()"
    total = total if isinstance(ctx.parent(call), (ast.Return, ast.Assign)) else f"({total})"
    return [*chain.removed(), inserted(ctx, chain.statement, text), ctx.replace(call, total)]


def _flat(call: ast.Call) -> tuple[ast.Name, list[ast.AST], ast.expr] | None:
    """Return what the loss is of, what its width is read from, and the targets, where both are made flat."""
    match call.args:
        case [ast.Call(ast.Attribute(ast.Name() as logits, "view" | "reshape"), [rows, width], []), target]:
            is_flat = isinstance(rows, ast.UnaryOp) and ast.unparse(rows) == "-1"
            return (logits, [width], target) if is_flat and _is_flat(target) else None
        case [ast.Call(ast.Attribute(ast.Name() as logits, "flatten"), [ast.Constant(0), ast.Constant(1)], []), target]:
            return (logits, [], target) if _is_flat(target) else None
        case _:
            return None


def _is_flat(target: ast.expr) -> bool:
    match target:
        case ast.Call(ast.Attribute(ast.Name(), "flatten"), [], []):
            return True
        case ast.Call(ast.Attribute(ast.Name(), "view" | "reshape"), [size], []):
            return ast.unparse(size) == "-1"
        case _:
            return False


def _ignored(ctx: Context, call: ast.Call) -> int | None:
    """Return the target that does not count; None where the loss has options beside it."""
    match call.keywords:
        case []:
            return _IGNORED
        case [ast.keyword("ignore_index", value)]:
            number = number_of(value, ctx)
            return int(number) if number is not None else None
        case _:
            return None
