"""Rule DG762: a function for LambdaLR that returns a learning rate where a factor is wanted."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Constant, Function
from drygrad.static.syntax import argument, last_assignment
from drygrad.static.tree import walk

_LAMBDA = "torch.optim.LambdaLR"


class LambdaReturnsRate(Rule):
    """
    ## What it does
    Finds `LambdaLR` with a function that multiplies by the learning rate already passed to the optimizer.

    ## Why is this bad?
    `LambdaLR` multiplies the optimizer's learning rate by the function's result. If the function returns the rate
    itself, the result is its square: with 0.001 the model trains at a millionth and hardly moves.

    ## Example
    ```python
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: lr * 0.95**epoch)
    ```
    Use instead:
    ```python
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.95**epoch)
    ```

    ## Fix safety
    Unsafe: it changes the learning rate.
    """

    code, name, since = "DG762", "lambda-returns-rate", "0.1"
    severity = "warning"
    VALID = [
        Valid("o = torch.optim.Adam(p, lr=lr)\ns = torch.optim.lr_scheduler.LambdaLR(o, lambda e: 0.95 ** e)"),
        Valid("o = torch.optim.Adam(p, lr=lr)\ns = torch.optim.lr_scheduler.LambdaLR(o, lambda e: max(e, low) / lr)"),
        Valid("o = torch.optim.Adam(p, lr=1.0)\ns = torch.optim.lr_scheduler.LambdaLR(o, lambda e: 1.0 * d ** -0.5)"),
    ]
    INVALID = [
        Invalid(
            "o = torch.optim.Adam(p, lr=base_lr)\n"
            "s = torch.optim.lr_scheduler.LambdaLR(o, lambda e: base_lr * 0.95 ** e)",
            "o = torch.optim.Adam(p, lr=base_lr)\ns = torch.optim.lr_scheduler.LambdaLR(o, lambda e: 0.95 ** e)",
            at=(2, 51, 2, 58),
        ),
        Invalid(
            """
            def warm_up(step):
                if step < 100:
                    return 1e-3 * step / 100
                return 1e-3

            optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
            scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda=warm_up)
            """,
            at=(4, 11, 4, 15),
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        if ctx.name(node.func) != _LAMBDA:
            return
        optimizer, function = argument(node, "optimizer", 0), argument(node, "lr_lambda", 1)
        rate = _rate_of(optimizer, node, ctx)
        if function is None or rate is None:
            return
        for returned in _returned(function, ctx):
            factor = _factor(returned, rate, ctx)
            if factor is not None:
                message = "LambdaLR multiplies the learning rate by this value, which already contains the rate"
                fix = ctx.fix("Return the factor only", _without(factor, ctx))
                related = [("the learning rate is set here", rate)]
                yield ctx.finding(self, factor, message, related=related, fixes=[fix])
                return


def _rate_of(optimizer: ast.expr | None, node: ast.AST, ctx: Context) -> ast.expr | None:
    """Return the learning rate that an optimizer was made with."""
    text = dotted_text(optimizer) if optimizer is not None else None
    made = last_assignment(ctx, text, ctx.statement(node)) if text is not None else None
    return argument(made, "lr", 1) if isinstance(made, ast.Call) else None


def _returned(function: ast.expr, ctx: Context) -> Iterator[ast.expr]:
    if isinstance(function, ast.Lambda):
        yield function.body
    value = ctx.value(function)
    if isinstance(value, Function) and isinstance(value.node, ast.FunctionDef):
        for node in walk(value.node):
            if isinstance(node, ast.Return) and node.value is not None:
                yield node.value


def _factor(node: ast.expr, rate: ast.expr, ctx: Context) -> ast.expr | None:
    """Return the factor of a product that is the learning rate."""
    match node:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _factor(left, rate, ctx) or _factor(right, rate, ctx)
        case ast.BinOp(left=left, op=ast.Div()):
            return _factor(left, rate, ctx)
        case ast.Call(func=ast.Name(id="max" | "min"), args=[first, *_]):
            return _factor(first, rate, ctx)
        case _:
            pass
    text = dotted_text(rate)
    if text is not None:
        return node if dotted_text(node) == text else None
    given, mine = ctx.value(rate), ctx.value(node)
    small = isinstance(given, Constant) and isinstance(given.value, float) and given.value < 0.5
    return node if small and isinstance(node, ast.Constant) and mine == given else None


def _without(factor: ast.expr, ctx: Context) -> Edit | None:
    """Take a factor out of the product that it stands first in."""
    parent = ctx.parent(factor)
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Mult):
        other = parent.right if parent.left is factor else parent.left
        outer = ctx.parent(parent)
        return ctx.replace(parent, ctx.source_of(other)) if not isinstance(outer, ast.BinOp) else None
    return None
