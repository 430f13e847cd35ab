"""Who reads the result of an operation besides the loss, and how the loss gets another value while they keep theirs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Edit
from drygrad.static.context import Context
from drygrad.static.editing import as_operand, free_name, inserted
from drygrad.static.facts.values import Origin, Tensor
from drygrad.static.rules.loss.origins import RELAYOUTS, maker
from drygrad.static.rules.numerics.rewriting import epsilon
from drygrad.static.syntax import scope_of
from drygrad.static.tree import walk

_FACTS = frozenset({"shape", "dtype", "device", "ndim", "size", "dim", "requires_grad", "is_cuda", "numel"})
_CARRIERS = (ast.Tuple, ast.List, ast.Dict, ast.Starred, ast.keyword, ast.NamedExpr)


def holds(ctx: Context, outer: ast.AST, inner: ast.AST) -> bool:
    """Say whether a node is another one or stands in it."""
    return inner is outer or any(ancestor is outer for ancestor in ctx.ancestors(inner))


def is_shared(ctx: Context, given: ast.expr, result: ast.expr) -> bool:
    """Say whether something else than the loss's argument ``given`` is known to read a result, in whatever function."""
    if holds(ctx, given, result):
        return False
    return any(_is_read(ctx, node, given) for node in (*_holders(ctx, result), *_other_loads(ctx, given)))


def _holders(ctx: Context, result: ast.expr) -> Iterator[ast.expr]:
    """Yield the expressions that are known to be a result, its layout aside."""
    for node, value in ctx.facts.recording.values.items():
        if isinstance(value, Tensor) and node is not result and isinstance(node, (ast.Name, ast.Call, ast.Attribute)):
            made = maker(value)
            if made is not None and made.node is result:
                yield node


def _other_loads(ctx: Context, given: ast.expr) -> Iterator[ast.expr]:
    """Yield what else the function of a loss reads by the names in the loss's argument, wherever that came from."""
    names = {n.id for n in walk(given) if isinstance(n, ast.Name)} if not isinstance(given, ast.Call) else set[str]()
    mentions = [n for n in walk(scope_of(given, ctx)) if isinstance(n, ast.Name) and n.id in names]
    start = min((n.lineno for n in mentions if isinstance(n.ctx, ast.Store)), default=None)
    if start is not None:
        yield from (n for n in mentions if isinstance(n.ctx, ast.Load) and n.lineno > start)


def _is_read(ctx: Context, node: ast.expr, given: ast.expr) -> bool:
    """Say whether the values of an expression are read where it stands, not only handed on towards the loss."""
    inner: ast.AST = node
    while not holds(ctx, given, inner):
        outer = ctx.parent(inner)
        match outer:
            case ast.Attribute(attr=attr) if attr in _FACTS:
                return False
            case ast.Attribute() | ast.Subscript() if inner is not getattr(outer, "slice", None):
                pass
            case ast.Call(func=function) if function is inner or inner in outer.args[:1]:
                call = ctx.call(outer)
                if call is None or call.operation not in RELAYOUTS:
                    return call is not None or function is not inner
            case ast.stmt():
                return not isinstance(outer, (ast.Assign, ast.AnnAssign, ast.Return, ast.Expr, ast.Delete))
            case _ if isinstance(outer, _CARRIERS):
                pass
            case _:
                return True
        assert outer is not None, "every expression stands in a statement"
        inner = outer
    return False


INVERSES = {"sigmoid": "logit(eps=1e-6)", "softmax": "clamp(min={}).log()"}
"""What gives logits back of the result of an activation, but for a constant that the loss does not see."""


def with_own_name(ctx: Context, given: ast.expr, origin: Origin) -> list[Edit | None]:
    """Give the loss what an operation was applied to under a name of its own; the result keeps its other readers.

    Empty where the result got no name in the function of the loss, or the operation has overwritten its operand.
    """
    call, statement = origin.call, ctx.statement(origin.node)
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if call is not None and call.operands:
            pass
        case _:
            return []
    loads = [n for n in walk(given) if isinstance(n, ast.Name) and n.id == name]
    fresh = free_name(ctx, statement, "logits", "raw_logits", "scores", "raw_scores", "before")
    if call.inplace or len(loads) != 1 or fresh is None or ctx.function(given) is not ctx.function(statement):
        return []
    operand, whole = call.operands[0], ctx.source_of(value)
    laid_out = whole.replace(ctx.source_of(origin.node), fresh, 1)
    return [
        inserted(ctx, statement, f"{fresh} = {ctx.source_of(operand)}"),
        ctx.replace(operand, fresh),
        ctx.replace(loads[0], laid_out),
    ]


def undone(ctx: Context, given: ast.expr, origin: Origin) -> Edit | None:
    """Give the loss what a result was computed from, computed back where the loss is called."""
    inverse = INVERSES.get(origin.operation)
    return ctx.replace(given, back(ctx, given, inverse)) if inverse is not None else None


def back(ctx: Context, given: ast.expr, inverse: str) -> str:
    """Return the text of an expression with the inverse of an activation; halves are too coarse for it."""
    tensor = ctx.tensor(given)
    exact = (tensor is not None and tensor.dtype == "float32") or ctx.autocast(ctx.statement(given)) == "off"
    converted = "" if exact else ".float()"
    return f"{as_operand(ctx, given)}{converted}.{inverse.format(epsilon(None))}"
