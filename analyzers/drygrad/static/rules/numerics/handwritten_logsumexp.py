"""Rule DG414: a logarithm of a sum of exponentials, written by hand."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Safety, Valid
from drygrad.static.context import Context
from drygrad.static.editing import as_operand, written_as
from drygrad.static.facts.operations import VIEWS
from drygrad.static.facts.values import NONE, Constant, Origin, Sequence, Tensor, TorchCall, Value
from drygrad.static.rules.numerics.exponents import is_log_prob, is_negative_square, may_overflow, may_underflow
from drygrad.static.rules.numerics.guards import stands_within
from drygrad.static.rules.numerics.rewriting import is_counted
from drygrad.static.tree import walk

_COSINES = frozenset({"normalize", "cosine_similarity"})
_SCALES = frozenset({"mul", "div", "matmul", "mm", "bmm", "einsum", "neg", "transpose", "t", "sum", "cat"}) | VIEWS

_IN_WORDS = {
    "one": "exp overflows above 88.7 (float32) and the logarithm becomes inf; softplus does not",
    "sum": "exp overflows above 88.7 (float32) and underflows below -104; logsumexp does neither",
}


class HandwrittenLogsumexp(Rule):
    """
    ## What it does
    Finds `log(exp(x).sum())` and `log(1 + exp(x))` where `x` may be large: its maximum is not subtracted first. Also
    finds densities that are added before taking the logarithm: `log((weights * exp(log_density)).sum())`.

    ## Why is this bad?
    `exp` overflows above 88.7 in float32 (11 in float16) and underflows to 0 below -104 (-17): if one summand is too
    large the result is inf, if all are too small it is log(0) = -inf. In both cases the gradient is NaN, although the
    true result is an ordinary number. `torch.logsumexp` subtracts the maximum, and `F.softplus` is exact everywhere. If
    the exponent is a parameter itself, such as the `rho` of a standard deviation, this is an info: it starts small and
    usually stays small.

    ## Example
    ```python
    def nll_loss(log_weight: torch.Tensor, log_density: torch.Tensor):
        return -torch.log(torch.exp(log_weight + log_density).sum(dim=-1)).mean()
    ```
    Use instead:
    ```python
    def nll_loss(log_weight: torch.Tensor, log_density: torch.Tensor):
        return -torch.logsumexp(log_weight + log_density, dim=-1).mean()
    ```

    ## Fix safety
    Safe: equal up to rounding wherever nothing overflowed.
    """

    code, name, since = "DG414", "handwritten-logsumexp", "0.1"
    severity = "warning"
    VALID = [
        Valid("def f(x):\n    spread = x.var(0).log()\n    return spread.exp().mean().log()"),
        Valid("scores = nn.Linear(4, 3)(torch.randn(2, 4))\nz = torch.logsumexp(scores, dim=-1)"),
        Valid(
            """
            def free_energy(x: torch.Tensor, layer: nn.Linear):
                scores = layer(x)
                top = scores.amax(dim=-1, keepdim=True)
                return torch.log(torch.exp(scores - top).sum(dim=-1)) + top.squeeze(-1)
            """
        ),
        Valid(
            """
            def nt_xent(a, b, temperature=0.1):
                a, b = F.normalize(a, dim=-1), F.normalize(b, dim=-1)
                similarity = a @ b.t() / temperature
                return torch.log(torch.exp(similarity).sum(dim=-1)).mean()
            """
        ),
        Valid(
            """
            def spread(x: torch.Tensor, means: torch.Tensor):
                distance = (x[:, None] - means).pow(2).sum(-1)
                near = distance.amin(dim=1, keepdim=True)
                energy = (near - distance).exp().sum(dim=1).log() - near.squeeze(1)
                joint = -0.5 * distance - distance.mean()
                peak = joint.max(dim=1, keepdim=True).values.detach()
                return energy, (joint - peak).exp().sum(dim=1).log() + peak.squeeze(1)
            """
        ),
        Valid(
            """
            def entropy(x: torch.Tensor, head: nn.Linear, scale: torch.Tensor):
                chances = head(x).log_softmax(dim=-1).exp()
                kept = (chances * scale).sum(dim=-1).log()
                near = torch.log((scale * torch.exp(-0.5 * x.pow(2))).sum(dim=-1) + 1e-8)
                top = torch.distributions.Normal(x, 1.0).log_prob(x) - x.max()
                return kept, near, (scale * top.exp()).sum(-1)
            """
        ),
        Valid(
            """
            def uniformity(x: torch.Tensor):
                return torch.pdist(x).pow(2).mul(-2).exp().mean().log()
            """
        ),
        Valid("def f(x: torch.Tensor):\n    return torch.where(x > 20, x, (1 + x.clamp(max=20).exp()).log())"),
        Valid("def f(x):\n    return torch.log(torch.exp(-x.abs()) + 1)"),
    ]
    INVALID = [
        Invalid(
            """
            def nll(head: nn.Linear, x, log_prob):
                log_pi = head(x).log_softmax(dim=-1)
                return -torch.log(torch.exp(log_pi + log_prob).sum(dim=-1)).mean()
            """,
            """
            def nll(head: nn.Linear, x, log_prob):
                log_pi = head(x).log_softmax(dim=-1)
                return -torch.logsumexp(log_pi + log_prob, dim=-1).mean()
            """,
            at=(3, 12, 3, 63),
        ),
        Invalid(
            """
            def softplus_loss(model: nn.Linear, x, y):
                margin = -y * model(x)
                return torch.log(1 + torch.exp(margin)).mean()
            """,
            """
            def softplus_loss(model: nn.Linear, x, y):
                margin = -y * model(x)
                return F.softplus(margin).mean()
            """,
        ),
        Invalid(
            """
            def likelihood(x: torch.Tensor, means: torch.Tensor, weights: torch.Tensor, scale: torch.Tensor):
                density = torch.exp(-0.5 * ((x.unsqueeze(1) - means) / scale).pow(2)) / scale
                return -torch.log((weights * density).sum(dim=1)).mean()
            """
        ),
        Invalid(
            """
            def likelihood(x, means, scale, weights):
                found = torch.distributions.Normal(means, scale).log_prob(x.unsqueeze(-1)).exp()
                return -(weights * found).sum(-1).log().mean()
            """
        ),
        Invalid(
            """
            def likelihood(x, means, scale, log_weights: torch.Tensor):
                joint = torch.distributions.Normal(means, scale).log_prob(x.unsqueeze(-1)) + log_weights
                return torch.log(torch.exp(joint).sum(dim=-1))
            """,
            """
            def likelihood(x, means, scale, log_weights: torch.Tensor):
                joint = torch.distributions.Normal(means, scale).log_prob(x.unsqueeze(-1)) + log_weights
                return torch.logsumexp(joint, dim=-1)
            """,
        ),
        Invalid(
            """
            class Mixture:
                def __init__(self, means: torch.Tensor, weights: torch.Tensor):
                    self.means, self.weights = means, weights

                def joint(self, x):
                    distance = torch.cdist(x, self.means).pow(2)
                    return self.weights.log() - 0.5 * distance

                def log_prob(self, x: torch.Tensor):
                    joint = self.joint(x)
                    total = joint.exp().sum(dim=1).log()
                    return total, joint - total.unsqueeze(1)
            """,
            """
            class Mixture:
                def __init__(self, means: torch.Tensor, weights: torch.Tensor):
                    self.means, self.weights = means, weights

                def joint(self, x):
                    distance = torch.cdist(x, self.means).pow(2)
                    return self.weights.log() - 0.5 * distance

                def log_prob(self, x: torch.Tensor):
                    joint = self.joint(x)
                    total = torch.logsumexp(joint, dim=1)
                    return total, joint - total.unsqueeze(1)
            """,
        ),
        Invalid(
            """
            def likelihood(x: torch.Tensor, means: torch.Tensor, norms: torch.Tensor):
                log_density = -0.5 * ((x[:, None] - means) ** 2).sum(-1) - 0.5 * norms.exp()
                return torch.log(torch.sum(torch.exp(log_density), dim=1)).mean()
            """,
            """
            def likelihood(x: torch.Tensor, means: torch.Tensor, norms: torch.Tensor):
                log_density = -0.5 * ((x[:, None] - means) ** 2).sum(-1) - 0.5 * norms.exp()
                return torch.logsumexp(log_density, dim=1).mean()
            """,
        ),
        Invalid(
            """
            def contrast(model: nn.Linear, x):
                scores = model(x) @ model(x).t()
                total = scores.exp().sum(dim=1, keepdim=True)
                return scores - total.log()
            """
        ),
        Invalid(
            """
            class Weight(nn.Module):
                def __init__(self, n):
                    super().__init__()
                    self.rho = nn.Parameter(torch.full((n,), -3.0))

                def forward(self):
                    return torch.log1p(torch.exp(self.rho))
            """,
            """
            class Weight(nn.Module):
                def __init__(self, n):
                    super().__init__()
                    self.rho = nn.Parameter(torch.full((n,), -3.0))

                def forward(self):
                    return F.softplus(self.rho)
            """,
            severity="info",
        ),
    ]

    calls = ("log", "log1p")

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        if call is None or not call.operands:
            return
        found = _exponential_behind(ctx.tensor(call.operands[0]), call.operation)
        if found is None:
            return
        kind, exponential, total = found
        if not _is_unbounded(kind, exponential, ctx) or _is_cosine(exponential) or stands_within(node, "where", ctx):
            return
        yield ctx.finding(
            self,
            node,
            _IN_WORDS["one" if kind == "one" else "sum"],
            severity="info" if _is_learned(exponential) else None,
            related=[] if _stands_in(exponential, node) else [("exp is applied here", exponential.node)],
            fixes=[_fix(node, kind, exponential, total, ctx)],
        )


def _is_unbounded(kind: str, exponential: Origin, ctx: Context) -> bool:
    """Say whether exponents may grow, or all of them may fall: those of densities do with the number of dimensions."""
    falls = kind in ("sum", "weighted") and (may_underflow(exponential) or is_log_prob(exponential, ctx))
    if kind == "weighted":
        return falls or is_negative_square(exponential)
    return falls or may_overflow(exponential, ctx)


def _exponential_behind(tensor: Tensor | None, operation: str) -> tuple[str, Origin, TorchCall | None] | None:
    """Return how exponentials are added up in a logarithm's argument, the exponential, and the call of the sum."""
    origin = tensor.origin if tensor is not None else None
    if origin is None:
        return None
    if operation == "log1p":
        return ("one", origin, None) if origin.operation == "exp" else None
    if origin.operation in ("sum", "mean"):
        inner = _exponential(origin.operands[:1])
        weighted = _weighted(origin.operands[:1]) if inner is None else None
        if weighted is not None:
            return "weighted", weighted, origin.call
        kind = "sum" if origin.operation == "sum" else "mean"
        return (kind, inner, origin.call) if inner is not None else None
    if origin.operation == "add" and Constant(1) in (*origin.operands, Constant(1.0)):
        inner = _exponential(origin.operands)
        return ("one", inner, None) if inner is not None and _has_one(origin.operands) else None
    return None


def _has_one(operands: tuple[Value, ...]) -> bool:
    return any(isinstance(value, Constant) and value.value == 1 for value in operands)


def _exponential(operands: tuple[Value, ...]) -> Origin | None:
    return next((v.origin for v in operands if isinstance(v, Tensor) and v.made_by("exp")), None)


def _weighted(operands: tuple[Value, ...], deepest: int = 4) -> Origin | None:
    """Return the exponential in a product with weights, or in a quotient: a density."""
    for value in operands if deepest else ():
        origin = value.origin if isinstance(value, Tensor) and value.made_by("mul", "div") else None
        if origin is not None:
            factors = origin.operands if origin.operation == "mul" else origin.operands[:1]
            return _exponential(factors) or _weighted(factors, deepest - 1)
    return None


def _is_learned(exponential: Origin) -> bool:
    """Say whether the exponent is a parameter itself: it begins small, and no single batch makes it large."""
    return any(isinstance(value, Tensor) and value.parameter for value in exponential.operands[:1])


def _is_cosine(exponential: Origin) -> bool:
    """Say whether the exponent is a scaled similarity of normalised vectors: it stays small."""
    waiting = [value for value in exponential.operands if isinstance(value, Tensor)]
    seen: set[int] = set()
    while waiting:
        origin = waiting.pop().origin
        if origin is None or id(origin) in seen:
            continue
        seen.add(id(origin))
        if origin.operation in _COSINES:
            return True
        if origin.operation in _SCALES:
            waiting.extend(value for value in origin.operands if isinstance(value, Tensor))
    return False


def _stands_in(exponential: Origin, node: ast.Call) -> bool:
    return any(inner is exponential.node for inner in walk(node))


def _fix(node: ast.Call, kind: str, exponential: Origin, total: TorchCall | None, ctx: Context) -> Fix | None:
    """Write it with torch's own function, where the whole stands in the call of the logarithm."""
    inner = exponential.call
    if inner is None or not inner.operands or not _stands_in(exponential, node) or "#" in ctx.source_of(node):
        return None
    exponent = ctx.source_of(inner.operands[0])
    functional = written_as(ctx, "torch.nn.functional")
    safety: Safety = "safe"
    if kind == "one":
        counts = is_counted(ctx.tensor(inner.operands[0]))
        text = f"{functional}.softplus({exponent})" if functional and not counts else None
    else:
        text = _logsumexp(as_operand(ctx, inner.operands[0]), exponent, total, ctx) if kind == "sum" else None
        safety = "safe" if total is not None and _names_dimensions(total.value("dim")) else "unsafe"
    return ctx.fix("Use torch's own function", ctx.replace(node, text), safety=safety) if text else None


def _names_dimensions(dim: Value | None) -> bool:
    """Say whether a ``dim`` is known to be a number or some of them: ``sum`` takes None for all, ``logsumexp`` not."""
    if isinstance(dim, Sequence):
        return bool(dim.items) and all(map(_names_dimensions, dim.items or ()))
    return isinstance(dim, Constant) and isinstance(dim.value, int)


def _logsumexp(operand: str, exponent: str, total: TorchCall | None, ctx: Context) -> str | None:
    dim = total.operand("dim") if total is not None else None
    if total is None or dim is None or len(total.operands) > 2 or set(total.keywords) - {"dim", "keepdim"}:
        return None
    if total.value("dim") == NONE:
        return None
    keepdim = total.keywords.get("keepdim")
    kept = f", keepdim={ctx.source_of(keepdim)}" if keepdim is not None else ""
    torch = ctx.imported_as("torch")
    if torch is None:
        return f"{operand}.logsumexp(dim={ctx.source_of(dim)}{kept})"
    return f"{torch}.logsumexp({exponent}, dim={ctx.source_of(dim)}{kept})"
