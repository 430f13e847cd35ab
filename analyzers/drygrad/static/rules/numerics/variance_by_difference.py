"""Rule DG415: a variance as the difference of two large numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Severity, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Constant, Origin, Tensor, Value
from drygrad.static.syntax import last_assignment

_ROOTS = frozenset({"sqrt", "rsqrt", "log"})


class VarianceByDifference(Rule):
    """
    ## What it does
    Finds the variance computed as `(x**2).mean() - x.mean()**2`, or as `squares / n - (total / n)**2`, followed by a
    root or a logarithm.

    ## Why is this bad?
    If the mean is large compared to the deviation, the two terms are nearly equal, and float32 has seven digits: the
    difference is rounding error, often below zero, and its root is NaN. For values around 1000 with a deviation of 0.1
    not one digit is right. A small epsilon under the root does not help. `x.var()` subtracts the mean first.

    ## Example
    ```python
    std = ((x**2).mean(dim=0) - x.mean(dim=0) ** 2).sqrt()
    ```
    Use instead:
    ```python
    std = x.std(dim=0, correction=0)
    ```

    ## Fix safety
    No fix: `var` needs the values themselves, which running sums no longer have.
    """

    code, name, since = "DG415", "variance-by-difference", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            def normalize(x: torch.Tensor):
                variance = (x**2).mean(0) - x.mean(0) ** 2
                return x / variance.clamp(min=1e-6).sqrt(), x.var(0).sqrt(), (x**2).mean(0) - x.mean(0) ** 2
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            class Statistics:
                def __init__(self, size):
                    self.n, self.total, self.squares = 0, torch.zeros(size), torch.zeros(size)

                def add(self, x):
                    self.n += len(x)
                    self.total += x.sum(0)
                    self.squares += x.square().sum(0)

                def deviation(self):
                    mean = self.total / self.n
                    return (self.squares / self.n - mean**2).sqrt()
            """,
            at=(12, 16, 12, 47),
        ),
        Invalid(
            """
            def normalize(x: torch.Tensor):
                mean = x.mean(dim=0)
                std = torch.sqrt((x**2).mean(dim=0) - mean**2)
                return (x - mean) / std
            """,
            at=(3, 21, 3, 49),
        ),
        Invalid(
            """
            def normalize(x: torch.Tensor):
                mean, square = x.mean(), x.pow(2).mean()
                variance = square - mean * mean
                return (x - mean) * torch.rsqrt(variance + 1e-5)
            """,
            severity="info",
        ),
    ]

    calls = tuple(sorted(_ROOTS))

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        given = call.operands[0] if call is not None and call.operands else None
        difference, severity = _difference_behind(ctx.tensor(given))
        place = difference.node if difference is not None else _difference_of_sums(given, ctx) if given else None
        if place is None:
            return
        message = "the difference of two nearly equal numbers is mostly rounding error and may be negative; use var()"
        related = [("the square root is taken here", node)]
        yield ctx.finding(self, place, message, severity=severity, related=related)


def _difference_behind(tensor: Tensor | None) -> tuple[Origin | None, Severity | None]:
    """Return the difference that a tensor is, an added epsilon aside, which makes it less grave."""
    origin = tensor.origin if tensor is not None else None
    severity: Severity | None = None
    if origin is not None and origin.operation == "add" and any(isinstance(v, Constant) for v in origin.operands):
        inner = next((v for v in origin.operands if isinstance(v, Tensor)), None)
        origin, severity = (inner.origin if inner is not None else None), "info"
    if origin is None or origin.operation != "sub" or len(origin.operands) != 2:
        return None, None
    square, mean = origin.operands
    return (origin, severity) if _is_mean_of_square(square) and _is_square_of_mean(mean) else (None, None)


def _difference_of_sums(node: ast.expr, ctx: Context) -> ast.BinOp | None:
    """Return ``squares / n - (total / n) ** 2`` where an expression is that, with the same n."""
    match _written(node, ctx):
        case ast.BinOp(left=square, op=ast.Sub(), right=mean) as difference:
            squared = _base(mean)
            counts = [_count(_written(square, ctx)), _count(_written(squared, ctx))]
            return difference if squared is not mean and None not in counts and counts[0] == counts[1] else None
        case _:
            return None


def _written(node: ast.expr, ctx: Context) -> ast.expr:
    """Return what a name was last assigned; other expressions as they are."""
    value = last_assignment(ctx, node.id, ctx.statement(node)) if isinstance(node, ast.Name) else None
    return node if value is None else value


def _base(node: ast.expr) -> ast.expr:
    """Return what an expression is the square of; the expression itself where it is no square."""
    match node:
        case ast.BinOp(left=base, op=ast.Pow(), right=ast.Constant(value=2)):
            return base
        case ast.BinOp(left=base, op=ast.Mult(), right=other) if ast.dump(base) == ast.dump(other):
            return base
        case ast.Call(func=ast.Attribute(value=base, attr="square"), args=[]):
            return base
        case ast.Call(func=ast.Attribute(value=base, attr="pow"), args=[ast.Constant(value=2)]):
            return base
        case _:
            return node


def _count(node: ast.expr) -> str | None:
    """Return what a quotient divides by, as written."""
    return ast.dump(node.right) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) else None


def _is_mean_of_square(value: Value) -> bool:
    return isinstance(value, Tensor) and value.made_by("mean") and any(map(_is_square, _operands(value)))


def _is_square_of_mean(value: Value) -> bool:
    return _is_square(value) and any(isinstance(v, Tensor) and v.made_by("mean") for v in _operands(value))


def _is_square(value: Value) -> bool:
    if not isinstance(value, Tensor) or value.origin is None:
        return False
    operands = value.origin.operands
    match value.origin.operation:
        case "square":
            return True
        case "pow":
            return len(operands) > 1 and operands[1] == Constant(2)
        case "mul":
            return len(operands) == 2 and operands[0] == operands[1] and isinstance(operands[0], Tensor)
        case _:
            return False


def _operands(value: Value) -> tuple[Value, ...]:
    return value.origin.operands if isinstance(value, Tensor) and value.origin is not None else ()
