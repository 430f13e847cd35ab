"""Rule DG401: division by zero."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.operations import FACTORIES
from drygrad.static.facts.ranges import range_of
from drygrad.static.facts.values import Constant, Number, Origin, Quantity, Tensor, Value
from drygrad.static.rules.numerics.rewriting import plus
from drygrad.static.rules.numerics.singular import QUOTIENTS, Singular, quotient_at
from drygrad.static.tree import walk


class DivisionByZero(Rule):
    """
    ## What it does
    Finds divisions of a tensor by something that is zero in every element, such as `y - y`, in any form: `/`, `div`,
    `reciprocal`, `rsqrt`, a negative power.

    ## Why is this bad?
    torch raises nothing, neither on the CPU nor on a GPU: the result is infinite (NaN where the numerator is also 0),
    and so are the gradients of its inputs. The loss becomes NaN without an error, often many lines later.

    ## Example
    ```python
    ratio = x / (y - y)
    ```
    Use instead:
    ```python
    ratio = x / (y.std() + 1e-6)
    ```

    ## Fix safety
    Unsafe: an epsilon keeps the result finite, but a denominator that is always zero is probably not the intended one.
    """

    code, name, since = "DG401", "division-by-zero", "0.1"
    severity = "warning"
    calls = frozenset(QUOTIENTS)
    VALID = [
        Valid("def f(x: torch.Tensor, y: torch.Tensor):\n    return x / (y - y.mean() + 1e-6)"),
        Valid("def f(x: torch.Tensor, y: torch.Tensor):\n    return x / (y - y + 1.0)"),
        Valid(
            "def f(x: torch.Tensor):\n    count = x.new_zeros(3)\n    for part in x:\n        count += part > 0\n"
            "    return x / count"
        ),
        Valid(
            "def f(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor):\n"
            "    gap = y - y\n    gap.add_(z)\n    return x / gap"
        ),
        Valid("nan = torch.zeros(1) / 0\ninfinity = torch.tensor(1.0) / 0"),
        Valid("def f(n: int, x: torch.Tensor):\n    return x / n, x // 2, 0 / x.exp()"),
        Valid(
            "import torch.distributed as dist\n\ndef f(x: torch.Tensor):\n    total = torch.zeros(1)\n"
            "    dist.all_reduce(total)\n    return x / total"
        ),
    ]
    INVALID = [
        Invalid(
            "def model_forward(x):\n    y = torch.rand_like(x)\n    return x / (y - y)\n\n"
            "x = torch.randn(10, requires_grad=True)\nloss = model_forward(x).mean()\nloss.backward()",
            "def model_forward(x):\n    y = torch.rand_like(x)\n    return x / (y - y + 1e-6)\n\n"
            "x = torch.randn(10, requires_grad=True)\nloss = model_forward(x).mean()\nloss.backward()",
            at=(3, 16, 3, 21),
        ),
        Invalid("def f(x: torch.Tensor):\n    x /= 0\n    return x", at=(2, 9, 2, 10)),
        Invalid(
            "class Scale(nn.Module):\n    def forward(self, x: torch.Tensor, mask: torch.Tensor):\n"
            "        off = mask * 0\n        return torch.div(x, off.sum(dim=1))",
            "class Scale(nn.Module):\n    def forward(self, x: torch.Tensor, mask: torch.Tensor):\n"
            "        off = mask * 0\n        return torch.div(x, off.sum(dim=1) + 1e-6)",
            at=(4, 28, 4, 42),
        ),
        Invalid(
            "def f(x: torch.Tensor):\n    for scale in (x, x.detach()):\n        x = x.div(scale - scale)\n"
            "    return x",
            "def f(x: torch.Tensor):\n    for scale in (x, x.detach()):\n        x = x.div(scale - scale + 1e-6)\n"
            "    return x",
        ),
        Invalid(
            "def f(x):\n    d = x - x.detach()\n    return x * d ** -1",
            "def f(x):\n    d = x - x.detach()\n    return x * (d + 1e-6) ** -1",
            at=(3, 15, 3, 16),
        ),
        Invalid(
            "def f(x: torch.Tensor):\n    return x / torch.zeros_like(x)",
            "def f(x: torch.Tensor):\n    return x / (torch.zeros_like(x) + 1e-6)",
        ),
    ]

    def visit_operator(self, node: ast.BinOp | ast.AugAssign, ctx: Context) -> Iterator[Finding]:
        yield from self._check(quotient_at(node, ctx), ctx)

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        yield from self._check(quotient_at(node, ctx), ctx)

    def _check(self, found: Singular | None, ctx: Context) -> Iterator[Finding]:
        if found is None or not _is_zero(found.value, found, ctx):
            return
        numerator = ctx.quantity(_numerator(found.node))
        written = isinstance(found.value, Constant) or (found.tensor is not None and found.tensor.made_by(*FACTORIES))
        if written and _is_literal(numerator) and isinstance(found.node, (ast.BinOp, ast.AugAssign)):
            return
        if isinstance(found.value, Constant) and not isinstance(numerator, Tensor):
            return
        text = ctx.source_of(found.argument)
        yield ctx.finding(
            self,
            found.argument,
            f"`{text}` is zero everywhere; the quotient and its gradients are inf or NaN, and nothing raises",
            fixes=[] if isinstance(found.value, Constant) else [self._fix(found, ctx)],
        )

    def _fix(self, found: Singular, ctx: Context) -> Fix | None:
        edits = plus(found.argument, "1e-6", ctx, is_argument=found.is_argument)
        return ctx.fix("Add a small epsilon to the denominator", *edits)


def _numerator(node: ast.expr | ast.stmt) -> ast.expr | None:
    match node:
        case ast.BinOp(left=numerator) | ast.AugAssign(target=numerator):
            return numerator
        case ast.Call(func=ast.Attribute(value=numerator), args=[_]) | ast.Call(args=[numerator, *_]):
            return numerator
        case _:
            return None


def _is_zero(value: Value, found: Singular, ctx: Context) -> bool:
    """Say whether a value is surely zero; of a new tensor of zeros only where it cannot have been filled since."""
    known = range_of(value)
    if known is None or not known.is_always(0):
        return False
    return isinstance(value, Constant) or _stays_zero(value, found, ctx)


def _stays_zero(value: Value, found: Singular, ctx: Context) -> bool:
    origin = value.origin if isinstance(value, (Tensor, Quantity)) else None
    if origin is None:
        return False
    if origin.operation in FACTORIES:
        return any(inner is origin.node for inner in walk(found.argument)) or _is_made_for(origin, found, ctx)
    return origin.operation == "sub" or any(_is_zero(operand, found, ctx) for operand in origin.operands)


def _is_made_for(origin: Origin, found: Singular, ctx: Context) -> bool:
    """Say whether zeros are made in the same function, outside of loops, so that what fills them would be seen."""
    function = ctx.function(found.node)
    return function is not None and function is ctx.function(origin.node) and not ctx.loops(origin.node)


def _is_literal(value: Value) -> bool:
    """Numbers and new tensors divided by zero are a way to write infinity or NaN."""
    if isinstance(value, Tensor):
        return value.origin is not None and value.origin.operation in FACTORIES and value.requires_grad is False
    return isinstance(value, (Constant, Number))
