"""Rule DG426: a standard deviation that is the exponential of a log-variance."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.syntax import argument, body_nodes, called, last_assignment, scope_of

_LOG_VARIANCE = re.compile(r"(^|_)log_?var(iance)?s?(_|$|\d)", re.I)
_NOISE = frozenset({"randn", "randn_like", "normal_"})
_NORMAL = frozenset({"torch.distributions.Normal", "torch.distributions.normal.Normal"})


class ScaleOfLogVariance(Rule):
    """
    ## What it does
    Finds `exp(log_var)` that multiplies noise, or is the scale of a `Normal`.

    ## Why is this bad?
    `exp(log_var)` is the variance; the standard deviation is its root, `exp(0.5 * log_var)`. The samples have a
    different spread than the KL term assumes, so the loss is no longer a variational bound. Nothing raises.

    ## Example
    ```python
    std = torch.exp(log_var)
    z = mu + std * torch.randn_like(std)
    ```
    Use instead:
    ```python
    std = torch.exp(0.5 * log_var)
    z = mu + std * torch.randn_like(std)
    ```

    ## Fix safety
    Unsafe: it changes the samples.
    """

    code, name, since = "DG426", "scale-of-log-variance", "0.1"
    severity = "warning"
    calls = frozenset({"exp"})
    VALID = [
        Valid("def f(mu, log_var):\n    std = torch.exp(0.5 * log_var)\n    return mu + std * torch.randn_like(std)"),
        Valid("def f(mu, logvar):\n    var = logvar.exp()\n    return mu + var.sqrt() * torch.randn_like(mu)"),
        Valid("def f(mu, log_std):\n    return mu + log_std.exp() * torch.randn_like(mu)"),
        Valid("def f(mu, logvar, e):\n    return -0.5 * (1 + logvar - mu ** 2 - logvar.exp()).sum() * e"),
    ]
    INVALID = [
        Invalid(
            "def f(mu, logvar):\n    std = torch.exp(logvar)\n"
            "    eps = torch.randn_like(std)\n    return mu + eps * std",
            "def f(mu, logvar):\n    std = torch.exp(0.5 * logvar)\n    eps = torch.randn_like(std)\n"
            "    return mu + eps * std",
            at=(2, 10, 2, 27),
        ),
        Invalid(
            "def f(mu, log_var):\n    return torch.distributions.Normal(mu, log_var.exp()).rsample()",
            "def f(mu, log_var):\n    return torch.distributions.Normal(mu, (0.5 * log_var).exp()).rsample()",
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        given = call.operands[0] if call is not None and call.operands else None
        name = dotted_text(given) if given is not None else None
        if given is None or name is None or not _LOG_VARIANCE.search(name.rpartition(".")[2]):
            return
        use = _scales_noise(node, ctx)
        if use is None:
            return
        is_argument = isinstance(ctx.parent(node), ast.Call) or given in node.args
        text = f"0.5 * {name}" if given in node.args and is_argument else f"(0.5 * {name})"
        message = f"exp({name}) is the variance, but it is used as the standard deviation"
        related = [("used here", use)] if use.lineno != node.lineno else []
        yield ctx.finding(
            self, node, message, related=related, fixes=[ctx.fix(f"Use `exp(0.5 * {name})`", ctx.replace(given, text))]
        )


def _scales_noise(node: ast.expr, ctx: Context) -> ast.expr | None:
    """Return where an expression, or the name that it is assigned to, multiplies noise or is a normal's scale."""
    if _is_scale(node, ctx):
        return node
    statement = ctx.parent(node)
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]):
            pass
        case _:
            return None
    for use in body_nodes(scope_of(node, ctx)):
        if isinstance(use, ast.Name) and use.id == name and isinstance(use.ctx, ast.Load) and _is_scale(use, ctx):
            return use
    return None


def _is_scale(node: ast.expr, ctx: Context) -> bool:
    parent = ctx.parent(node)
    match parent:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _is_noise(right if left is node else left, ctx)
        case ast.Call(func=function):
            return ctx.name(function) in _NORMAL and argument(parent, "scale", 1) is node
        case ast.keyword(arg="scale"):
            outer = ctx.parent(parent)
            return isinstance(outer, ast.Call) and ctx.name(outer.func) in _NORMAL
        case _:
            return False


def _is_noise(node: ast.expr, ctx: Context) -> bool:
    if isinstance(node, ast.Name):
        given = last_assignment(ctx, node.id, ctx.statement(node))
        return given is not None and not isinstance(given, ast.Name) and _is_noise(given, ctx)
    return isinstance(node, ast.Call) and called(node) in _NOISE
