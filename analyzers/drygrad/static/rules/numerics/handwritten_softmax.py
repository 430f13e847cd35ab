"""Rule DG405: a softmax written by hand."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import as_operand
from drygrad.static.facts.values import Constant, Origin, Tensor
from drygrad.static.rules.numerics.exponents import may_overflow
from drygrad.static.rules.numerics.rewriting import stays


class HandwrittenSoftmax(Rule):
    """
    ## What it does
    Finds `exp(x) / exp(x).sum()` without subtracting the maximum of `x` first.

    ## Why is this bad?
    `exp` overflows above 88.7 in float32 and above 11 in float16. One such logit makes both the numerator and the sum
    infinite, and their quotient NaN. torch raises nothing. `torch.softmax` subtracts the maximum, in one pass instead
    of three.

    ## Example
    ```python
    def attention(scores: torch.Tensor):
        return torch.exp(scores) / torch.exp(scores).sum(dim=-1, keepdim=True)
    ```
    Use instead:
    ```python
    def attention(scores: torch.Tensor):
        return torch.softmax(scores, dim=-1)
    ```

    ## Fix safety
    Safe if the exponential is part of the division: equal up to rounding wherever nothing overflowed. Unsafe if it was
    assigned to a name earlier.
    """

    code, name, since = "DG405", "handwritten-softmax", "0.1"
    severity = "warning"
    VALID = [
        Valid("def f(x):\n    return torch.softmax(x, dim=-1)"),
        Valid(
            "def f(x):\n    e = torch.exp(x - x.max(dim=-1, keepdim=True).values)\n"
            "    return e / e.sum(dim=-1, keepdim=True)"
        ),
        Valid("def f(x):\n    x = x - x.amax(1, keepdim=True)\n    return x.exp() / x.exp().sum(1, keepdim=True)"),
        Valid("def f(x, y):\n    return torch.exp(x) / torch.exp(y).sum(1, keepdim=True)"),
        Valid("def f(d):\n    e = torch.exp(-d.square())\n    return e / e.sum(-1, keepdim=True)"),
        Valid(
            "def kernel(size, sigma):\n    x = torch.arange(size) - size // 2\n"
            "    k = torch.exp(-0.5 * x**2 / sigma**2)\n    return k / k.sum()"
        ),
        Valid("def f(n, eta):\n    w = torch.exp(torch.linspace(-eta, 0, n))\n    return w / w.sum()"),
        Valid(
            "def f(x: torch.Tensor, c: torch.Tensor, precision):\n"
            "    w = torch.exp(-precision.to(x) * (x - c) ** 2)\n    v = torch.exp(-(precision * (x - c) ** 2))\n"
            "    return w / w.sum(-1, keepdim=True), v / v.sum(-1, keepdim=True)"
        ),
        Valid("def f(x, m):\n    e = torch.exp(x - m)\n    return e / e.sum(-1, keepdim=True)"),
        Valid("def f(x):\n    e = x.tanh().exp()\n    return e / e.sum(-1, keepdim=True), e / e.max()"),
        Valid(
            """
            @torch.no_grad()
            def weights(log_weights: torch.Tensor):
                log_weights = torch.cat([log_weights, log_weights])
                log_weights -= torch.logsumexp(log_weights, dim=0)
                probabilities = torch.exp(log_weights.view(-1))
                return probabilities / probabilities.sum()
            """
        ),
    ]
    INVALID = [
        Invalid(
            "def f(x):\n    return torch.exp(x) / torch.exp(x).sum(dim=-1, keepdim=True)",
            "def f(x):\n    return x.softmax(dim=-1)",
            at=(2, 11, 2, 64),
        ),
        Invalid(
            "class Attention(nn.Module):\n"
            "    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor):\n"
            "        scores = q @ k.transpose(-2, -1)\n"
            "        weights = torch.exp(scores)\n        weights = weights / weights.sum(-1, keepdim=True)\n"
            "        return weights @ v",
            "class Attention(nn.Module):\n"
            "    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor):\n"
            "        scores = q @ k.transpose(-2, -1)\n"
            "        weights = torch.exp(scores)\n        weights = scores.softmax(dim=-1)\n"
            "        return weights @ v",
            at=(5, 18, 5, 57),
        ),
        Invalid("def f(x):\n    e = x.exp()\n    return e / (torch.sum(e, 1).unsqueeze(1) + 1e-8)"),
        Invalid(
            "def f(x: torch.Tensor):\n    e = (x / 3).exp()\n    e /= e.sum(dim=0, keepdim=True)\n    return e",
            at=(3, 4, 3, 35),
        ),
        Invalid(
            "def f(scores, mask):\n    e = torch.exp(scores) * mask\n    return e / e.sum(-1, keepdim=True)",
            at=(3, 11, 3, 38),
        ),
        Invalid(
            "x = torch.randn(5)\np = torch.exp(x) / torch.sum(torch.exp(x))",
            "x = torch.randn(5)\np = x.softmax(dim=0)",
        ),
    ]

    def visit_operator(self, node: ast.BinOp | ast.AugAssign, ctx: Context) -> Iterator[Finding]:
        if not isinstance(node.op, ast.Div):
            return
        numerator = node.left if isinstance(node, ast.BinOp) else node.target
        total = _sum_behind(ctx.tensor(node.right if isinstance(node, ast.BinOp) else node.value))
        if total is None:
            return
        exponential = _exponential(ctx.tensor(numerator) if isinstance(node, ast.BinOp) else _summed(total))
        if exponential is None or not _is_sum_of(total, exponential, numerator, ctx):
            return
        if not may_overflow(exponential, ctx):
            return
        place = exponential.node
        yield ctx.finding(
            self,
            node,
            "this softmax does not subtract the maximum; exp overflows above 88.7 in float32 (11 in float16), and "
            "inf / inf is NaN",
            related=[] if place is numerator else [("exp is applied here", place)],
            fixes=[self._fix(node, exponential, total, ctx)] if isinstance(node, ast.BinOp) else [],
        )

    def _fix(self, node: ast.BinOp, exponential: Origin, total: Origin, ctx: Context) -> Fix | None:
        call = exponential.call
        dim = _dim(total)
        right = ctx.tensor(node.right)
        if call is None or dim is None or right is None or right.origin != total or "#" in ctx.source_of(node):
            return None
        if not _is_exponential(node.left, exponential, ctx):  # a mask has to stay
            return None
        logits = call.operands[0]
        if not stays(logits, exponential.node, node, ctx):
            return None
        text = f"{as_operand(ctx, logits)}.softmax(dim={dim})"
        return ctx.fix(
            "Use `softmax`", ctx.replace(node, text), safety="safe" if exponential.node is node.left else "unsafe"
        )


def _exponential(tensor: Tensor | None) -> Origin | None:
    """Return the exp that a tensor is, also where it has been multiplied by a mask or a weight."""
    if tensor is None or tensor.origin is None:
        return None
    if tensor.made_by("mul"):
        factors = [value for value in tensor.origin.operands if isinstance(value, Tensor)]
        found = [value.origin for value in factors if value.made_by("exp")]
        return found[0] if len(found) == 1 and not any(_reciprocal(value) for value in factors) else None
    return tensor.origin if tensor.made_by("exp") else None


def _is_exponential(node: ast.expr, exponential: Origin, ctx: Context) -> bool:
    tensor = ctx.tensor(node)
    return tensor is not None and tensor.origin == exponential


def _reciprocal(tensor: Tensor) -> bool:
    return tensor.made_by("reciprocal", "div", "rsqrt")


def _sum_behind(tensor: Tensor | None) -> Origin | None:
    """Return the sum that a denominator is, an added epsilon and a reshaping aside."""
    origin = tensor.origin if tensor is not None else None
    if origin is None or origin.operation == "sum":
        return origin
    if origin.operation not in ("add", "unsqueeze", "view", "reshape", "expand_as", "clamp", "clamp_min"):
        return None
    inner = [value for value in origin.operands if isinstance(value, Tensor)]
    return _sum_behind(inner[0]) if inner else None


def _summed(total: Origin) -> Tensor | None:
    value = next(iter(total.operands), None)
    return value if isinstance(value, Tensor) else None


def _is_sum_of(total: Origin, exponential: Origin, numerator: ast.expr, ctx: Context) -> bool:
    """Say whether a sum adds up just the exponentials of the numerator."""
    other, call = _exponential(_summed(total)), total.call
    if other is None or call is None or not call.operands:
        return False
    if isinstance(numerator, (ast.Name, ast.Attribute)) and not isinstance(numerator.ctx, ast.Load):
        return ctx.source_of(numerator) == ctx.source_of(call.operands[0])
    if other == exponential:
        return True
    mine, theirs = exponential.call, other.call
    if mine is None or theirs is None or not mine.values or not theirs.values:
        return False
    return mine.values[0] == theirs.values[0] and ast.dump(mine.operands[0]) == ast.dump(theirs.operands[0])


def _dim(total: Origin) -> int | None:
    """Return the dimension that the sum runs over, where it is kept; for a vector the only one."""
    call, summed = total.call, _summed(total)
    if call is None or summed is None:
        return None
    dim = call.value("dim")
    if dim is None:
        return 0 if summed.shape is not None and len(summed.shape) == 1 else None
    kept = call.value("keepdim") == Constant(True)
    return dim.value if kept and isinstance(dim, Constant) and type(dim.value) is int else None
