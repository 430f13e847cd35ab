"""Rule DG402: division by what may be zero."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.operations import VIEWS
from drygrad.static.facts.values import INTEGERS, Tensor
from drygrad.static.rules.numerics.divisions import Division, division_at
from drygrad.static.rules.numerics.guards import is_bounded, is_guarded, records_gradient
from drygrad.static.rules.numerics.rewriting import epsilon, plus

_WHEN_ZERO = {
    "norm": "the norm of a vector of zeros",
    "std": "the standard deviation of equal values",
    "var": "the variance of equal values",
    "abs": "the magnitude of 0",
    "sqrt": "the root of 0",
    "cdist": "the distance of a point to itself",
    "pairwise_distance": "the distance of a point to itself",
    "sum": "the sum of zeros",
    "mean": "the mean of zeros",
    "count_nonzero": "the count of nothing",
}


_FROM_NUMBERS = ("tensor", "as_tensor")


class DivisionWithoutEpsilon(Rule):
    """
    ## What it does
    Finds divisions, in what a model or a loss computes, by a norm, a standard deviation, a sum of magnitudes or a
    count,
    with nothing that keeps the denominator from being zero.

    ## Why is this bad?
    A vector of zeros has the norm 0, a batch of equal values the deviation 0, a mask that selects nothing the count 0.
    torch raises nothing then: the quotient is NaN, and so are the gradients. It takes one such sample, hours into a
    training. Whether there ever is one, the text alone cannot tell.

    Denominators with an epsilon, a bound (`clamp`), or a value that the function tests anywhere are left alone.

    ## Example
    ```python
    unit = x / x.norm(dim=-1, keepdim=True)
    ```
    Use instead:
    ```python
    unit = F.normalize(x, dim=-1)
    ```

    ## Fix safety
    Unsafe: the small number that is added changes the quotient slightly. A count is bounded by 1 instead, which leaves
    all others as they are.
    """

    code, name, since = "DG402", "division-without-epsilon", "0.1"
    severity = "info"
    calls = frozenset({"div"})
    VALID = [
        Valid(
            """
            class Router(nn.Module):
                def forward(self, x):
                    weights, chosen = torch.topk(F.softmax(x, dim=1), 2, dim=-1)
                    return weights / weights.sum(-1, keepdim=True), weights / torch.norm(weights, dim=-1, keepdim=True)
            """
        ),
        Valid(
            """
            class Scores(nn.Module):
                def __init__(self, n):
                    super().__init__()
                    self.weight = nn.Parameter(torch.randn(n))

                def forward(self, x, channels: int):
                    return x @ self.weight / self.weight.norm() / torch.sqrt(torch.tensor(channels).float())
            """
        ),
        Valid("def loss(x: torch.Tensor):\n    return x / (x.norm() + 1e-8)"),
        Valid("def loss(x: torch.Tensor, eps):\n    return x / (x.norm() + eps), x / x.norm().clamp(min=1e-6)"),
        Valid("def loss(x: torch.Tensor):\n    n = x.norm()\n    if n > 0:\n        x = x / n\n    return x"),
        Valid("def loss(x: torch.Tensor):\n    n = x.norm()\n    return torch.where(n == 0, 0.0, x / n)"),
        Valid("def loss(x: torch.Tensor):\n    p = x.softmax(-1)\n    return p / p.sum(-1, keepdim=True), x / len(x)"),
        Valid("@torch.no_grad()\ndef loss(x: torch.Tensor):\n    return x / x.norm()"),
        Valid(
            "class Norm(nn.Module):\n    def __init__(self, eps):\n        super().__init__()\n"
            "        self.eps = eps\n\n"
            "    def forward(self, x: torch.Tensor):\n"
            "        return x / (x.square().mean(-1, keepdim=True) + self.eps).sqrt()"
        ),
        Valid(
            "def attention_loss(a: torch.Tensor, b: torch.Tensor):\n"
            "    mixed = a.softmax(-1) * 0.5 + b.softmax(-1) * 0.5\n"
            "    return mixed / mixed.sum(dim=-1, keepdim=True)"
        ),
        Valid("def report(x: torch.Tensor):\n    return x / x.std()"),
        Valid(
            "def loss(x: torch.Tensor, mask: torch.Tensor):\n    assert mask.any()\n"
            "    return (x * mask).sum() / mask.bool().sum()"
        ),
        Valid("def loss(x: torch.Tensor):\n    return F.normalize(x, dim=-1), x / x.exp().sum(), x / x.numel()"),
        Valid("def loss(x: torch.Tensor):\n    return x / x.norm(dim=1, keepdim=True).clamp_min(1e-6).expand_as(x)"),
    ]
    INVALID = [
        Invalid(
            "def loss(x: torch.Tensor):\n    return x / x.norm(dim=-1, keepdim=True)",
            "def loss(x: torch.Tensor):\n    return x / (x.norm(dim=-1, keepdim=True) + 1e-8)",
            at=(2, 15, 2, 43),
        ),
        Invalid(
            "class Normal(nn.Module):\n    def forward(self, x: torch.Tensor):\n"
            "        return (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)",
            "class Normal(nn.Module):\n    def forward(self, x: torch.Tensor):\n"
            "        return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-8)",
        ),
        Invalid(
            "def masked_loss(prediction: torch.Tensor, target: torch.Tensor, ignored: int):\n"
            "    mask = target != ignored\n"
            "    errors = F.mse_loss(prediction, target, reduction='none') * mask\n"
            "    return errors.sum() / mask.sum()",
            "def masked_loss(prediction: torch.Tensor, target: torch.Tensor, ignored: int):\n"
            "    mask = target != ignored\n"
            "    errors = F.mse_loss(prediction, target, reduction='none') * mask\n"
            "    return errors.sum() / mask.sum().clamp(min=1)",
            at=(4, 26, 4, 36),
        ),
        Invalid(
            "w = torch.randn(3, requires_grad=True)\nlength = w.square().sum().sqrt()\nunit = w.div(length)",
            "w = torch.randn(3, requires_grad=True)\nlength = w.square().sum().sqrt()\nunit = w.div(length + 1e-8)",
        ),
        Invalid(
            "def loss(q: torch.Tensor):\n    q /= torch.linalg.norm(q, dim=-1).unsqueeze(-1)\n    return q",
            "def loss(q: torch.Tensor):\n    q /= (torch.linalg.norm(q, dim=-1).unsqueeze(-1) + 1e-8)\n    return q",
        ),
    ]

    def visit_operator(self, node: ast.BinOp | ast.AugAssign, ctx: Context) -> Iterator[Finding]:
        if isinstance(node.op, ast.Div):
            yield from self._check(division_at(node, ctx), ctx)

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        yield from self._check(division_at(node, ctx), ctx)

    def _check(self, division: Division | None, ctx: Context) -> Iterator[Finding]:
        if division is None:
            return
        denominator = division.denominator
        tensor = ctx.tensor(denominator)
        source = _source(tensor)
        if tensor is None or source is None or source.origin is None:
            return
        if records_gradient(division.node, ctx, ctx.tensor(division.numerator), tensor) == "no":
            return
        if _is_chosen(source) or is_bounded(tensor) or is_guarded(division.node, denominator, ctx):
            return
        text = ctx.source_of(denominator)
        yield ctx.finding(
            self,
            denominator,
            f"`{text}` may be 0 ({_WHEN_ZERO[source.origin.operation]}): "
            "the quotient and its gradients would be infinite or NaN",
            fixes=[self._fix(division, source, ctx)],
        )

    def _fix(self, division: Division, source: Tensor, ctx: Context) -> Fix | None:
        denominator = division.denominator
        if _is_count(source) and isinstance(denominator, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
            return ctx.fix("Count at least 1", ctx.insert_after(denominator, ".clamp(min=1)"))
        edits: list[Edit | None] = plus(denominator, epsilon(source), ctx, is_argument=division.is_call)
        return ctx.fix("Add a small number to the denominator", *edits)


def _source(tensor: Tensor | None) -> Tensor | None:
    """Return the norm, deviation, sum or count that a denominator that may be zero is a view of."""
    if tensor is None or tensor.sign != "nonnegative":
        return None
    while tensor.origin is not None and tensor.origin.operation in VIEWS and tensor.origin.operands:
        viewed = tensor.origin.operands[0]
        if not isinstance(viewed, Tensor):
            return None
        tensor = viewed
    return tensor if tensor.made_by(*_WHEN_ZERO) else None


def _is_chosen(source: Tensor) -> bool:
    """Say whether it is the norm of a parameter, or the root of a number: neither becomes zero by itself."""
    inner = source.origin.operands[0] if source.origin is not None and source.origin.operands else None
    while isinstance(inner, Tensor) and inner.made_by("to", "float") and inner.origin is not None:
        inner = next(iter(inner.origin.operands), None)
    return isinstance(inner, Tensor) and (inner.parameter or (source.made_by("sqrt") and inner.made_by(*_FROM_NUMBERS)))


def _is_count(tensor: Tensor) -> bool:
    origin = tensor.origin
    if origin is None or origin.operation not in ("sum", "count_nonzero"):
        return False
    counted = origin.operands[0] if origin.operands else None
    return isinstance(counted, Tensor) and (counted.dtype == "bool" or counted.dtype in INTEGERS)
