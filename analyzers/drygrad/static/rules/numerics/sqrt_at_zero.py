"""Rule DG407: the gradient of a root at zero."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Constant, Origin, Tensor
from drygrad.static.rules.numerics.guards import ends_gradient, is_called_in_training, is_guarded, records_gradient
from drygrad.static.rules.numerics.rewriting import epsilon, is_counted, plus
from drygrad.static.rules.numerics.singular import ROOTS, Singular, is_of_arrays, root_at

_REDUCTIONS = frozenset({"sum", "mean", "squeeze", "unsqueeze", "view", "reshape"})
_SQUARES = frozenset({"pow", "square", "mul"})
_ERRORS = frozenset({"mse_loss", "var", "abs", "l1_loss"})


class SqrtAtZero(Rule):
    """
    ## What it does
    Finds square roots of a sum of squares, a squared distance or a variance, in what a model or a loss computes,
    without an epsilon under the root.

    ## Why is this bad?
    The derivative of a square root at 0 is infinite. If the squares are all 0 (a point and itself, a perfect
    prediction, equal values), backward multiplies infinity by 0: the gradient is NaN, although the root itself is a
    harmless 0. One such element makes every weight NaN in the next step. The gradients of `torch.linalg.vector_norm`,
    `torch.cdist` and `torch.std` are 0 there.

    ## Example
    ```python
    def distance_loss(a: torch.Tensor, b: torch.Tensor):
        return ((a - b) ** 2).sum(-1).sqrt().mean()
    ```
    Use instead:
    ```python
    def distance_loss(a: torch.Tensor, b: torch.Tensor):
        return torch.linalg.vector_norm(a - b, dim=-1).mean()
    ```

    ## Fix safety
    Unsafe: adding a small number changes the root slightly.
    """

    code, name, since = "DG407", "sqrt-at-zero", "0.1"
    severity = "info"
    calls = ROOTS
    VALID = [
        Valid(
            "def loss(a, b):\n    return (((a - b) ** 2).sum(-1) + 1e-8).sqrt(), torch.norm(a - b), torch.cdist(a, b)"
        ),
        Valid("def loss(a, b, eps):\n    return torch.sqrt((a - b).square().sum(-1) + eps)"),
        Valid("def loss(a, b):\n    return ((a - b) ** 2).sum(-1).clamp(min=1e-12).sqrt(), a.std(), a.sqrt()"),
        Valid("@torch.no_grad()\ndef report_loss(a, b):\n    return F.mse_loss(a, b).sqrt()"),
        Valid("def report(a, b):\n    return F.mse_loss(a, b).sqrt()"),
        Valid("def loss(a: torch.Tensor, b: torch.Tensor):\n    return torch.sqrt(F.mse_loss(a.detach(), b.detach()))"),
        Valid("def report(x: torch.Tensor):\n    return (x[1:] - x[:-1]).square().sum(-1).sqrt()"),
        Valid(
            """
            def distances(x: torch.Tensor):
                return (x.unsqueeze(1) - x.unsqueeze(0)).pow(2).sum(dim=-1).sqrt()

            def neighbours(x: torch.Tensor):
                return distances(x).topk(5, largest=False).indices

            def pair_loss(x: torch.Tensor, y: torch.Tensor):
                squares = x.pow(2).sum(1, keepdim=True) + x.pow(2).sum(1) - 2 * x @ x.t()
                safe = squares.clamp(min=1e-12).sqrt() + (squares.clamp(min=0) + 1e-8).sqrt()
                with torch.no_grad():
                    far = distances(x).max()
                return safe.mean() + (x @ y.t()).clamp(min=0).sqrt().mean() / far + (x @ x.t()).relu().sqrt().mean()
            """
        ),
        Valid("def loss(a, b):\n    d = (a - b).square().sum()\n    return d.sqrt() if d > 0 else d"),
    ]
    INVALID = [
        Invalid(
            "def rmse_loss(prediction, target):\n    return torch.sqrt(F.mse_loss(prediction, target))",
            "def rmse_loss(prediction, target):\n    return torch.sqrt(F.mse_loss(prediction, target) + 1e-8)",
            at=(2, 11, 2, 53),
        ),
        Invalid(
            "class Triplet(nn.Module):\n    def __init__(self, margin):\n        super().__init__()\n"
            "        self.margin = margin\n\n"
            "    def forward(self, anchor, positive, negative):\n"
            "        near = ((anchor - positive) ** 2).sum(dim=1).sqrt()\n"
            "        far = ((anchor - negative) ** 2).sum(dim=1).sqrt()\n"
            "        return F.relu(near - far + self.margin).mean()",
            "class Triplet(nn.Module):\n    def __init__(self, margin):\n        super().__init__()\n"
            "        self.margin = margin\n\n"
            "    def forward(self, anchor, positive, negative):\n"
            "        near = (((anchor - positive) ** 2).sum(dim=1) + 1e-8).sqrt()\n"
            "        far = ((anchor - negative) ** 2).sum(dim=1).sqrt()\n"
            "        return F.relu(near - far + self.margin).mean()",
            count=2,
        ),
        Invalid(
            "def pairwise_loss(x: torch.Tensor):\n    gap = x.unsqueeze(0) - x.unsqueeze(1)\n"
            "    return torch.sqrt(gap.pow(2).sum(-1)).mean()",
            "def pairwise_loss(x: torch.Tensor):\n    gap = x.unsqueeze(0) - x.unsqueeze(1)\n"
            "    return torch.sqrt(gap.pow(2).sum(-1) + 1e-8).mean()",
            at=(3, 11, 3, 41),
            severity="warning",
        ),
        Invalid(
            "def spread_loss(x: torch.Tensor):\n    return ((x[:, None] - x[None, :]) ** 2).sum(-1).sqrt().sum()",
            "def spread_loss(x: torch.Tensor):\n"
            "    return (((x[:, None] - x[None, :]) ** 2).sum(-1) + 1e-8).sqrt().sum()",
            severity="warning",
        ),
        Invalid(
            """
            def distances(x: torch.Tensor):
                gap = x.unsqueeze(1) - x.unsqueeze(0)
                return gap.pow(2).sum(dim=-1).sqrt()

            class Triplet(nn.Module):
                def forward(self, embeddings, labels):
                    distance = distances(embeddings)
                    same = labels[:, None] == labels
                    return F.relu(distance.masked_fill(~same, 0).amax(1) - distance.masked_fill(same, 9).amin(1)).mean()
            """,
            """
            def distances(x: torch.Tensor):
                gap = x.unsqueeze(1) - x.unsqueeze(0)
                return (gap.pow(2).sum(dim=-1) + 1e-8).sqrt()

            class Triplet(nn.Module):
                def forward(self, embeddings, labels):
                    distance = distances(embeddings)
                    same = labels[:, None] == labels
                    return F.relu(distance.masked_fill(~same, 0).amax(1) - distance.masked_fill(same, 9).amin(1)).mean()
            """,
            severity="warning",
        ),
        Invalid(
            "def gap_loss(x: torch.Tensor):\n    return (x[:, None] - x).pow(2).sum(-1).sqrt().mean()",
            "def gap_loss(x: torch.Tensor):\n    return ((x[:, None] - x).pow(2).sum(-1) + 1e-8).sqrt().mean()",
            severity="warning",
        ),
        Invalid(
            """
            def pair_loss(x: torch.Tensor):
                lengths = x.pow(2).sum(1)
                squares = lengths[:, None] + lengths[None, :] - 2 * x @ x.t()
                return squares.clamp(min=0).sqrt().mean()
            """,
            """
            def pair_loss(x: torch.Tensor):
                lengths = x.pow(2).sum(1)
                squares = lengths[:, None] + lengths[None, :] - 2 * x @ x.t()
                return (squares.clamp(min=0) + 1e-8).sqrt().mean()
            """,
            severity="warning",
        ),
        Invalid(
            "w = torch.randn(3, requires_grad=True)\nlength = (w * w).sum() ** 0.5",
            "w = torch.randn(3, requires_grad=True)\nlength = ((w * w).sum() + 1e-8) ** 0.5",
            at=(2, 9, 2, 29),
        ),
        Invalid(
            "def loss(x: torch.Tensor):\n    return x.var(dim=0).pow(0.5).mean()",
            "def loss(x: torch.Tensor):\n    return (x.var(dim=0) + 1e-8).pow(0.5).mean()",
        ),
    ]

    def visit_power(self, node: ast.BinOp, ctx: Context) -> Iterator[Finding]:
        yield from self._check(root_at(node, ctx), ctx)

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        yield from self._check(root_at(node, ctx), ctx)

    def _check(self, found: Singular | None, ctx: Context) -> Iterator[Finding]:
        if found is None or found.origin is None or not is_of_arrays(found, ctx):
            return
        node, given, tensor = found.node, found.argument, found.tensor
        own = tensor is not None and _pairs_with_itself(tensor)
        if not own and (is_counted(tensor) or ends_gradient(found.value)):
            return
        records = records_gradient(node, ctx, tensor) != "no" or (own and is_called_in_training(node, ctx))
        if not records or is_guarded(node, given, ctx):
            return
        zero = "is 0 on the diagonal" if own else "may be 0"
        yield ctx.finding(
            self,
            node,
            f"`{ctx.source_of(given)}` {zero}; the gradient of sqrt is infinite there, so it becomes NaN and spreads "
            "to every weight",
            severity="warning" if own else None,
            fixes=[self._fix(found, ctx)],
        )

    def _fix(self, found: Singular, ctx: Context) -> Fix | None:
        edits = plus(found.argument, epsilon(found.tensor), ctx, is_argument=found.is_argument)
        return ctx.fix("Add a small epsilon", *edits)


def _behind_reductions(tensor: Tensor) -> Origin | None:
    origin = tensor.origin
    while origin is not None and origin.operation in _REDUCTIONS:
        inner = next((value for value in origin.operands if isinstance(value, Tensor)), None)
        origin = inner.origin if inner is not None else None
    return origin


def _pairs_with_itself(tensor: Tensor) -> bool:
    """Say whether squares are of ``x[:, None] - x[None, :]``, every element against every other and itself."""
    origin = _behind_reductions(tensor)
    if origin is not None and origin.operation in ("clamp", "clamp_min", "relu"):
        return any(_takes_own_products(value) for value in origin.operands)
    if origin is None or origin.operation not in _SQUARES | _ERRORS:
        return False
    gap = next((v for v in origin.operands if isinstance(v, Tensor)), None)
    if gap is None or gap.origin is None or gap.origin.operation != "sub" or len(gap.origin.operands) != 2:
        return False
    first, second = gap.origin.operands
    spread = [memory for memory in (_spread(first), _spread(second)) if memory is not None]
    held = [value.storage for value in (first, second) if isinstance(value, Tensor)]
    return bool(spread) and all(memory is spread[0] for memory in (*spread, *held))


def _takes_own_products(value: object, negative: bool = False, deepest: int = 5) -> bool:
    """Say whether ``x @ x.t()`` is subtracted in a sum: distances by products, which rounding leaves at 0 or below."""
    origin = value.origin if isinstance(value, Tensor) and deepest else None
    if origin is None:
        return False
    if origin.operation in ("matmul", "mm", "bmm"):
        given = [_unscaled(operand).storage for operand in origin.operands if isinstance(operand, Tensor)]
        return negative and len(given) == 2 and given[0] is not None and given[0] == given[1]
    if origin.operation == "neg" or (origin.operation == "mul" and any(map(_is_negative, origin.operands))):
        negative = not negative
    if origin.operation == "sub":
        first, second, *_ = *origin.operands, None, None
        return _takes_own_products(first, negative, deepest - 1) or _takes_own_products(
            second, not negative, deepest - 1
        )
    known = origin.operation in ("add", "mul", "neg")
    return known and any(_takes_own_products(operand, negative, deepest - 1) for operand in origin.operands)


def _is_negative(value: object) -> bool:
    return isinstance(value, Constant) and isinstance(value.value, (int, float)) and value.value < 0


def _unscaled(value: Tensor) -> Tensor:
    """Return what a multiple is a multiple of: ``x`` of ``-2 * x``."""
    while value.made_by("mul", "div", "neg") and value.origin is not None:
        inner = [operand for operand in value.origin.operands if isinstance(operand, Tensor)]
        if len(inner) != 1:
            break
        value = inner[0]
    return value


def _spread(value: object) -> object:
    """Return the memory of what was given a new dimension; None for anything else."""
    if not isinstance(value, Tensor) or value.origin is None:
        return None
    node = value.origin.node
    spreads = value.made_by("unsqueeze") or (isinstance(node, ast.Subscript) and _only_adds_dimensions(node.slice))
    return value.storage if spreads else None


def _only_adds_dimensions(index: ast.expr) -> bool:
    """Say whether an index is made of ``None``, ``:`` and ``...``, so that it leaves no element out."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return all(ast.unparse(part) in ("None", ":", "...") for part in parts)
