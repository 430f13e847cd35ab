"""Rule DG402: division by what may be zero."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.operations import VIEWS
from drygrad.static.facts.values import INTEGERS, Constant, Number, Origin, Quantity, Tensor, Value
from drygrad.static.rules.numerics.guards import is_guarded, records_gradient
from drygrad.static.rules.numerics.rewriting import epsilon, plus
from drygrad.static.rules.numerics.singular import QUOTIENTS, Singular, is_of_arrays, quotient_at

_WHEN_ZERO = {
    "norm": "the norm of a zero vector",
    "std": "the standard deviation of equal values",
    "var": "the variance of equal values",
    "abs": "the magnitude of 0",
    "sqrt": "the square root of 0",
    "cdist": "the distance from a point to itself",
    "pairwise_distance": "the distance from a point to itself",
    "sum": "the sum of zeros",
    "mean": "the mean of zeros",
    "count_nonzero": "the count of an empty selection",
    "relu": "relu of negative values",
    "clamp": "clamping at 0 does not prevent it",
    "clamp_min": "clamping at 0 does not prevent it",
    "max": "the maximum of zeros",
    "amax": "the maximum of zeros",
    "arange": "it starts at 0",
    "linspace": "it starts at 0",
    "square": "the square of 0",
    "pow": "a power of 0",
    "mul": "the square of 0",
    "sub": "the difference of equal values",
    "scatter_add": "an empty sum stays 0",
    "index_add": "an empty sum stays 0",
    "sigmoid": "a sigmoid rounds to 0",
    "softmax": "a probability rounds to 0",
}


_SQUARES = frozenset({"pow", "square", "mul"})
_FROM_NUMBERS = ("tensor", "as_tensor")


class DivisionWithoutEpsilon(Rule):
    """
    ## What it does
    Finds divisions, in what a model or a loss computes, by a value that can reach 0: a norm, a standard deviation, a
    sum of magnitudes, a count, the output of `relu`, the difference between maximum and minimum, without anything that
    keeps it above 0. `reciprocal`, `rsqrt` and negative powers count as divisions.

    ## Why is this bad?
    A vector of zeros has norm 0, a batch of equal values has standard deviation 0, a mask that selects nothing has
    count 0. torch raises nothing: the quotient is NaN or infinite, and so are the gradients. One such sample is enough,
    hours into training. Static analysis cannot tell whether there ever is one.

    Denominators with an epsilon or a bound (`clamp`), and values that the function checks anywhere, are not reported.

    ## Example
    ```python
    def unit_loss(x: torch.Tensor):
        return x / x.norm(dim=-1, keepdim=True)
    ```
    Use instead:
    ```python
    def unit_loss(x: torch.Tensor):
        return F.normalize(x, dim=-1)
    ```

    ## Fix safety
    Unsafe: adding a small number changes the quotient slightly. A count is clamped to at least 1 instead, which leaves
    all other counts unchanged.
    """

    code, name, since = "DG402", "division-without-epsilon", "0.1"
    severity = "info"
    calls = frozenset(QUOTIENTS)
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
        Valid(
            "def schedule(steps, s=0.008):\n    t = torch.linspace(0, 1, steps)\n"
            "    kept = torch.cos((t + s) / (1 + s) * 1.57) ** 2\n    return 1 - kept[1:] / kept[:-1]\n\n"
            "class Diffusion(nn.Module):\n    def __init__(self, steps):\n        super().__init__()\n"
            "        self.register_buffer('betas', schedule(steps))"
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
            "class Scale(nn.Module):\n    def forward(self, x):\n"
            "        return (x - x.min()) * torch.reciprocal(x.max() - x.min())",
            "class Scale(nn.Module):\n    def forward(self, x):\n"
            "        return (x - x.min()) * torch.reciprocal(x.max() - x.min() + 1e-8)",
            at=(3, 48, 3, 65),
        ),
        Invalid(
            "def loss(q: torch.Tensor):\n    q /= torch.linalg.norm(q, dim=-1).unsqueeze(-1)\n    return q",
            "def loss(q: torch.Tensor):\n    q /= (torch.linalg.norm(q, dim=-1).unsqueeze(-1) + 1e-8)\n    return q",
        ),
    ]

    def visit_operator(self, node: ast.BinOp | ast.AugAssign, ctx: Context) -> Iterator[Finding]:
        yield from self._check(quotient_at(node, ctx), ctx)

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        yield from self._check(quotient_at(node, ctx), ctx)

    def _check(self, found: Singular | None, ctx: Context) -> Iterator[Finding]:
        if found is None or found.always or not is_of_arrays(found, ctx):
            return
        origin = source_of(found)
        if isinstance(found.value, Constant) or is_guarded(found.node, found.argument, ctx):
            return
        if origin is not None and _is_chosen(origin, ctx):
            return
        if not found.surely and not _is_recorded(found, ctx):
            return
        reason = _WHEN_ZERO.get(origin.operation if origin is not None else "", "what it is computed from may be")
        yield ctx.finding(
            self,
            found.argument,
            f"`{ctx.source_of(found.argument)}` may be 0 ({reason}); the quotient and its gradients would be inf or "
            "NaN",
            fixes=[self._fix(found, origin, ctx)],
        )

    def _fix(self, found: Singular, origin: Origin | None, ctx: Context) -> Fix | None:
        denominator = found.argument
        if _is_count(origin) and isinstance(denominator, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
            return ctx.fix("Clamp the count to at least 1", ctx.insert_after(denominator, ".clamp(min=1)"))
        edits: list[Edit | None] = plus(denominator, epsilon(found.tensor), ctx, is_argument=found.is_argument)
        return ctx.fix("Add a small epsilon to the denominator", *edits)


def _is_recorded(found: Singular, ctx: Context) -> bool:
    node = found.node
    numerator = node.target if isinstance(node, ast.AugAssign) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        numerator = node.left
    call = ctx.call(node) if isinstance(node, ast.Call) else None
    if call is not None and found.operation == "div":
        numerator = call.operand("input")
    tensors = [ctx.tensor(part) for part in (numerator, found.argument) if part is not None]
    if numerator is None and _is_sum_of_counts(found.origin):  # no gradient itself, but the quotient is used
        tensors = []
    return records_gradient(node, ctx, *tensors) != "no"


def source_of(found: Singular) -> Origin | None:
    """Return the norm, deviation, sum or count that an argument is a view of."""
    origin = found.origin
    while origin is not None and origin.operands and (origin.operation in VIEWS or _is_multiple(origin)):
        inner = next((v.origin for v in origin.operands if isinstance(v, (Tensor, Quantity))), None)
        if inner is None:
            break
        origin = inner
    return origin


def _is_sum_of_counts(origin: Origin | None) -> bool:
    return _is_count(origin) or (origin is not None and origin.operation in ("index_add", "scatter_add"))


def _is_multiple(origin: Origin) -> bool:
    numbers = sum(isinstance(operand, (Constant, Number)) for operand in origin.operands)
    return origin.operation in ("mul", "div") and numbers == 1


def _is_argument_elsewhere(value: Value | None, ctx: Context) -> bool:
    """Say whether a value is an argument as it came of what is no ``forward``: a length or a step as likely as data."""
    place = value.storage if isinstance(value, (Tensor, Quantity)) and value.origin is None else None
    function = ctx.function(place) if isinstance(place, ast.arg) else None
    return function is not None and function.name != "forward"


def _is_chosen(source: Origin, ctx: Context) -> bool:
    """Say whether it is the norm of a parameter, or the root of a number: neither becomes zero by itself."""
    inner = source.operands[0] if source.operands else None
    if source.operation in _SQUARES and _is_argument_elsewhere(inner, ctx):
        return True
    while isinstance(inner, Tensor) and inner.made_by("to", "float") and inner.origin is not None:
        inner = next(iter(inner.origin.operands), None)
    return isinstance(inner, Tensor) and (
        inner.parameter or (source.operation == "sqrt" and inner.made_by(*_FROM_NUMBERS))
    )


def _is_count(origin: Origin | None) -> bool:
    if origin is None or origin.operation not in ("sum", "count_nonzero"):
        return False
    counted = origin.operands[0] if origin.operands else None
    return isinstance(counted, Tensor) and (counted.dtype == "bool" or counted.dtype in INTEGERS)
