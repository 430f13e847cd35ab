"""Rule DG610: a matrix product that only scales rows or columns."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import as_operand
from drygrad.static.facts.values import Origin, Tensor

_REDUCTIONS = frozenset({"sum", "mean", "norm", "amax", "amin", "std", "var"})
_ELEMENTWISE = frozenset(
    "pow sqrt rsqrt reciprocal exp log abs clamp clamp_min clamp_max add sub mul div neg square to float masked_fill "
    "nan_to_num where sigmoid softplus relu".split()
)


class ProductWithDiagonal(Rule):
    """
    ## What it does
    Finds `torch.diag(d) @ a` and `a @ torch.diag(d)` for a vector `d`.

    ## Why is this bad?
    The product scales the rows (or columns) of `a` by `d`, one multiplication per element of `a`. As a matrix product
    it takes n times as many, nearly all of them with zero, and the diagonal matrix needs memory for n * n elements.

    ## Example
    ```python
    adjacency = torch.rand(8, 8)
    d = adjacency.sum(dim=1).rsqrt()
    normalized = torch.diag(d) @ adjacency @ torch.diag(d)
    ```
    Use instead:
    ```python
    adjacency = torch.rand(8, 8)
    d = adjacency.sum(dim=1).rsqrt()
    normalized = d.unsqueeze(-1) * adjacency * d
    ```

    ## Fix safety
    Unsafe: if the other factor is a vector, the shape of the result differs.
    """

    code, name, since = "DG610", "product-with-diagonal", "0.1"
    severity = "info"
    VALID = [
        Valid("a = torch.rand(8, 8)\nb = a.sum(dim=1).unsqueeze(-1) * a"),
        Valid("m = torch.rand(8, 8)\nv = torch.diag(m) @ m"),
        Valid("def f(m, a):\n    return torch.diag(m) @ a"),
        Valid("a = torch.rand(8, 8)\nb = torch.diag(a.sum(dim=1)) - a"),
    ]
    INVALID = [
        Invalid(
            "a = torch.rand(8, 8)\nb = torch.diag(a.sum(dim=1)) @ a",
            "a = torch.rand(8, 8)\nb = a.sum(dim=1).unsqueeze(-1) * a",
            at=(2, 4, 2, 32),
        ),
        Invalid(
            """
            def normalize(adjacency: torch.Tensor):
                d = adjacency.sum(1).pow(-0.5)
                return torch.diag(d) @ adjacency @ torch.diag(d)
            """,
            """
            def normalize(adjacency: torch.Tensor):
                d = adjacency.sum(1).pow(-0.5)
                return d.unsqueeze(-1) * adjacency @ torch.diag(d)
            """,
            count=2,
        ),
    ]

    def visit_product(self, node: ast.BinOp, ctx: Context) -> Iterator[Finding]:
        if not isinstance(node.op, ast.MatMult):
            return
        for side, other in ((node.left, node.right), (node.right, node.left)):
            diagonal = _diagonal_of_vector(ctx.tensor(side))
            if diagonal is None:
                continue
            what = "rows" if side is node.left else "columns"
            message = f"multiplying by a diagonal matrix only scales the {what}; multiply by the vector instead"
            yield ctx.finding(self, node, message, fixes=[_scaled(node, side, other, diagonal, ctx)])
            return


def _diagonal_of_vector(tensor: Tensor | None) -> Origin | None:
    """Return the call that made a diagonal matrix of a vector; None where it may have taken a matrix's diagonal."""
    origin = tensor.origin if tensor is not None else None
    if origin is None or tensor is None or origin.call is None or len(origin.call.values) != 1:
        return None
    if origin.operation in ("diag_embed", "diagflat"):
        return origin
    given = origin.call.values[0]
    if origin.operation != "diag" or not isinstance(given, Tensor):
        return None
    return origin if (tensor.shape is not None and len(tensor.shape) == 2) or _is_vector(given) else None


def _is_vector(tensor: Tensor) -> bool:
    """Say whether a tensor is what a matrix was reduced to along one dimension, or was computed of such elements."""
    origin = tensor.origin
    if tensor.shape is not None or origin is None:
        return tensor.shape is not None and len(tensor.shape) == 1
    if origin.operation in _REDUCTIONS and origin.call is not None:
        call = origin.call
        return call.value("dim") is not None and call.value("keepdim") is None
    inner = [value for value in origin.operands if isinstance(value, Tensor)]
    return origin.operation in _ELEMENTWISE and len(inner) == 1 and _is_vector(inner[0])


def _scaled(node: ast.BinOp, side: ast.expr, other: ast.expr, diagonal: Origin, ctx: Context) -> Fix | None:
    if diagonal.node is not side or diagonal.call is None or diagonal.operation == "diagflat":
        return None
    vector, matrix = as_operand(ctx, diagonal.call.operands[0]), ctx.source_of(other)
    simple = isinstance(other, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    if side is node.left and simple:
        return ctx.fix("Multiply the rows", ctx.replace(node, f"{vector}.unsqueeze(-1) * {matrix}"))
    return None
