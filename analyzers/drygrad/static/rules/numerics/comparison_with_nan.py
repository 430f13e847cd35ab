"""Rule DG417: a comparison with NaN."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context

_NAN = frozenset({"torch.nan", "math.nan", "numpy.nan", "numpy.NaN", "numpy.NAN"})


class ComparisonWithNan(Rule):
    """
    ## What it does
    Finds `x == float("nan")`, `loss == torch.nan` and their negations.

    ## Why is this bad?
    NaN is not equal to anything, not even itself: `==` is always False, `!=` always True. The check that should catch a
    broken loss, or the mask that should skip missing values, never does anything.

    ## Example
    ```python
    if loss == float("nan"):
        continue
    ```
    Use instead:
    ```python
    if torch.isnan(loss):
        continue
    ```

    ## Fix safety
    Unsafe: code that never ran now may.
    """

    code, name, since = "DG417", "comparison-with-nan", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            "def f(x: torch.Tensor):\n"
            "    return x.isnan(), x == float('inf'), x != x, x.masked_fill(x < 0, float('nan'))"
        ),
    ]
    INVALID = [
        Invalid(
            "def f(loss: torch.Tensor):\n    if loss == float('nan'):\n        return None\n    return loss",
            "def f(loss: torch.Tensor):\n    if torch.isnan(loss):\n        return None\n    return loss",
            at=(2, 7, 2, 27),
        ),
        Invalid(
            "def clean(x: torch.Tensor):\n    return x[x != torch.nan]",
            "def clean(x: torch.Tensor):\n    return x[~torch.isnan(x)]",
        ),
        Invalid("import math\n\ndef f(value):\n    return value == math.nan"),
    ]

    def visit_compare(self, node: ast.Compare, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as operator], comparators=[right]):
                pass
            case _:
                return
        other = right if _is_nan(left, ctx) else left if _is_nan(right, ctx) else None
        if other is None:
            return
        never = "never" if isinstance(operator, ast.Eq) else "always"
        message = f"NaN never equals anything, not even itself; this is {never} true"
        fix = _asked(node, other, negated=isinstance(operator, ast.NotEq), ctx=ctx)
        yield ctx.finding(self, node, message, fixes=[fix])


def _is_nan(node: ast.expr, ctx: Context) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str(text))]):
            return text.lower() == "nan"
        case _:
            return ctx.name(node) in _NAN


def _asked(node: ast.Compare, other: ast.expr, *, negated: bool, ctx: Context) -> Fix | None:
    torch = ctx.imported_as("torch")
    if ctx.tensor(other) is None or torch is None:
        return None
    text = f"{torch}.isnan({ctx.source_of(other)})"
    return ctx.fix("Use `torch.isnan`", ctx.replace(node, f"~{text}" if negated else text))
