"""Rule DG333: a KL divergence with the wrong sign."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Invalid, Rule, Span, Valid
from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.syntax import body_nodes, scope_of
from drygrad.static.tree import walk


class KlSign(Rule):
    """
    ## What it does
    Finds `0.5 * (1 + log_var - mu**2 - log_var.exp())`, summed or averaged and added to a loss. The KL divergence to
    the standard normal is the negative of this.

    ## Why is this bad?
    The sum is never positive, and 0 only at the prior. With the wrong sign, the loss rewards codes far from the prior:
    it falls without bound, and decoded samples of the prior are noise.

    ## Example
    ```python
    kl = 0.5 * torch.sum(1 + log_var - mu.pow(2) - log_var.exp())
    loss = reconstruction + kl
    ```
    Use instead:
    ```python
    kl = -0.5 * torch.sum(1 + log_var - mu.pow(2) - log_var.exp())
    loss = reconstruction + kl
    ```

    ## Fix safety
    Unsafe: it changes the value of the loss.
    """

    code, name, since = "DG333", "kl-sign", "0.1"
    severity = "warning"
    VALID = [
        Valid("def f(r, mu, lv):\n    kl = -0.5 * torch.sum(1 + lv - mu.pow(2) - lv.exp())\n    return r + kl"),
        Valid("def f(r, mu, lv):\n    kl = 0.5 * torch.sum(1 + lv - mu.pow(2) - lv.exp())\n    return r - kl"),
        Valid("def f(r, mu, lv):\n    elbo = 0.5 * torch.sum(1 + lv - mu ** 2 - lv.exp()) - r\n    return -elbo"),
        Valid("def f(r, mu, lv):\n    kl = 0.5 * torch.sum(mu ** 2 + lv.exp() - 1 - lv)\n    return r + kl"),
    ]
    INVALID = [
        Invalid(
            "def f(r, mu, lv):\n"
            "    kl = 0.5 * torch.sum(1 + lv - mu.pow(2) - lv.exp(), dim=1).mean()\n    return r + kl",
            "def f(r, mu, lv):\n"
            "    kl = -0.5 * torch.sum(1 + lv - mu.pow(2) - lv.exp(), dim=1).mean()\n    return r + kl",
            at=(2, 9, 2, 69),
        ),
        Invalid(
            "def f(r, mu, lv, beta):\n    kl = torch.mean(0.5 * (1 + lv - mu ** 2 - torch.exp(lv)))\n"
            "    loss = r + beta * kl\n    loss.backward()",
            "def f(r, mu, lv, beta):\n    kl = torch.mean(-0.5 * (1 + lv - mu ** 2 - torch.exp(lv)))\n"
            "    loss = r + beta * kl\n    loss.backward()",
        ),
    ]

    def visit_assign(self, node: ast.Assign, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                half = _positive_half(value)
            case _:
                return
        if half is None or not _is_added(name, node, ctx):
            return
        start = ctx.source.start(half)
        message = f"the KL term has the wrong sign: {name} is never positive, and the divergence is its negative"
        fix = ctx.fix("Flip the sign", Edit(Span(start, start), "-"))
        yield ctx.finding(self, value, message, fixes=[fix])


def _positive_half(value: ast.expr) -> ast.expr | None:
    """Return the factor of one half before such a sum, where no sign is turned on the way."""
    node = value
    for _ in range(6):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="sum" | "mean"), args=[inner, *_]):
                node = inner
            case ast.Call(func=ast.Attribute(value=inner, attr="sum" | "mean")):
                node = inner
            case ast.BinOp(left=inner, op=ast.Div()):
                node = inner
            case ast.BinOp(left=ast.Constant(value=0.5) as half, op=ast.Mult(), right=inner):
                return half if any(_is_minus_divergence(n) for n in walk(inner)) and not _turns(inner) else None
            case _:
                return None
    return None


def _turns(node: ast.expr) -> bool:
    return any(
        isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.USub) and not isinstance(n.operand, ast.Constant)
        for n in walk(node)
    )


def _is_minus_divergence(node: ast.AST) -> bool:
    """Say whether a node is ``1 + v - m ** 2 - exp(v)``, in whatever order."""
    if not isinstance(node, ast.BinOp):
        return False
    added: list[ast.expr] = []
    taken: list[ast.expr] = []
    _terms(node, True, added, taken)
    names = [dotted_text(term) for term in added]
    ones = [term for term in added if isinstance(term, ast.Constant) and term.value in (1, 1.0)]
    exponents = [name for term in taken if (name := _exponent(term)) is not None]
    squares = [term for term in taken if _is_square(term)]
    known = len(added) == 2 and len(taken) == 2 and len(ones) == len(exponents) == len(squares) == 1
    return known and exponents[0] in names


def _terms(node: ast.expr, plus: bool, added: list[ast.expr], taken: list[ast.expr]) -> None:
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as operator, right=right):
            _terms(left, plus, added, taken)
            _terms(right, plus == isinstance(operator, ast.Add), added, taken)
        case _:
            (added if plus else taken).append(node)


def _exponent(term: ast.expr) -> str | None:
    match term:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="exp"), args=[inner]):
            return dotted_text(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr="exp"), args=[]):
            return dotted_text(inner)
        case _:
            return None


def _is_square(term: ast.expr) -> bool:
    match term:
        case ast.BinOp(op=ast.Pow(), right=ast.Constant(value=2)):
            return True
        case ast.Call(func=ast.Attribute(attr="pow"), args=[*_, ast.Constant(value=2)]):
            return True
        case ast.Call(func=ast.Attribute(attr="square")):
            return True
        case _:
            return False


def _is_added(name: str, node: ast.Assign, ctx: Context) -> bool:
    """Say whether every use of a name that does arithmetic adds it."""
    signs: list[bool] = []
    for use in body_nodes(scope_of(node, ctx)):
        if isinstance(use, ast.Name) and use.id == name and isinstance(use.ctx, ast.Load) and use.lineno > node.lineno:
            signs += _signs(use, ctx)
    return bool(signs) and all(signs)


def _signs(use: ast.expr, ctx: Context) -> list[bool]:
    """Return whether an expression is added, or taken away, on its way up; [] where it is neither."""
    found: list[bool] = []
    node: ast.AST = use
    while True:
        parent = ctx.parent(node)
        match parent:
            case ast.BinOp(left=left, op=ast.Add()):
                found.append(True)
            case ast.BinOp(left=left, op=ast.Sub()):
                found.append(left is node)
            case ast.BinOp(left=left, op=ast.Mult() | ast.Div()):
                other = parent.right if left is node else left
                if isinstance(other, ast.UnaryOp) or (isinstance(other, ast.Constant) and _is_negative(other)):
                    return [False]
            case ast.UnaryOp(op=ast.USub()):
                return [False]
            case ast.AugAssign(op=ast.Add()):
                return [*found, True]
            case ast.AugAssign():
                return [False]
            case _:
                return found
        node = parent


def _is_negative(node: ast.Constant) -> bool:
    return isinstance(node.value, (int, float)) and node.value < 0
