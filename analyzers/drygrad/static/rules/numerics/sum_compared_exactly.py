"""Rule DG422: a computed sum that is compared with a number exactly."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import written_as
from drygrad.static.facts.values import FLOATING, Constant, Tensor

_ROUNDS = frozenset({"sum", "mean", "norm", "std", "var", "softmax", "div", "matmul", "logsumexp", "exp"})
_FORMS = frozenset("squeeze unsqueeze view reshape flatten detach cpu cuda to float abs".split())


class SumComparedExactly(Rule):
    """
    ## What it does
    Finds sums of quotients, of probabilities or of other computed floats that are compared with `==` or `!=`:
    `probabilities.sum(-1) == 1`.

    ## Why is this bad?
    Every addition rounds. The sum of softmax probabilities is 0.99999994 in some rows and 1.0000001 in others; which
    ones depends on the device and the number of threads. An assertion on it fails now and then, and a mask computed
    from it has holes.

    ## Example
    ```python
    assert (p.softmax(-1).sum(-1) == 1).all()
    ```
    Use instead:
    ```python
    total = p.softmax(-1).sum(-1)
    assert torch.allclose(total, torch.ones_like(total))
    ```

    ## Fix safety
    Unsafe: nearly equal numbers now count as equal.
    """

    code, name, since = "DG422", "sum-compared-exactly", "0.1"
    severity = "info"
    VALID = [
        Valid(
            "def f(x: torch.Tensor):\n    return (x > 0).sum() == 1, x.sum() == 0, x.norm() == 0, x.long().sum() == 3"
        ),
        Valid("def f(x: torch.Tensor):\n    return x == 1, torch.isclose(x.sum(), torch.tensor(1.0)), x.max() == 1.0"),
        Valid("def f(x):\n    return x.sum(-1) == 1"),
    ]
    INVALID = [
        Invalid(
            "def check(x: torch.Tensor):\n    p = torch.softmax(x, dim=-1)\n    return (p.sum(-1) == 1.0).all()",
            "def check(x: torch.Tensor):\n    p = torch.softmax(x, dim=-1)\n"
            "    return (torch.isclose(p.sum(-1), torch.full_like(p.sum(-1), 1.0))).all()",
            at=(3, 12, 3, 28),
        ),
    ]

    def visit_comparison(self, node: ast.Compare, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
                pairs = ((left, right), (right, left))
            case _:
                return
        for computed, other in pairs:
            number, tensor = ctx.value(other), ctx.tensor(computed)
            is_number = isinstance(number, Constant) and isinstance(number.value, (int, float)) and number.value != 0
            if is_number and tensor is not None and _is_rounded(tensor):
                message = f"`{ctx.source_of(computed)}` carries rounding error, so an exact comparison rarely holds"
                yield ctx.finding(self, node, message, fixes=[_fix(node, computed, other, ctx)])
                return


def _is_rounded(tensor: Tensor) -> bool:
    """Say whether a tensor is a sum of probabilities or other quotients, or a norm: no sum of whole numbers."""
    origin = tensor.origin
    if origin is None or tensor.dtype not in FLOATING | {None}:
        return False
    inner = next((v for v in origin.operands if isinstance(v, Tensor)), None)
    if origin.operation in _FORMS:
        return inner is not None and _is_rounded(inner)
    return origin.operation == "sum" and inner is not None and inner.made_by(*_ROUNDS)


def _fix(node: ast.Compare, computed: ast.expr, other: ast.expr, ctx: Context) -> Fix | None:
    torch = written_as(ctx, "torch.isclose")
    full = written_as(ctx, "torch.full_like")
    if torch is None or full is None or not isinstance(node.ops[0], ast.Eq) or "#" in ctx.source_of(node):
        return None
    text = ctx.source_of(computed)
    return ctx.fix("Use `torch.isclose`", ctx.replace(node, f"{torch}({text}, {full}({text}, {ctx.source_of(other)}))"))
