"""Rule DG418: a bound slightly below one that the dtype rounds to one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Constant, Tensor
from drygrad.static.numbers import number_of
from drygrad.static.tree import walk

_HALF_STEPS = {"float32": 2.0**-25, "float16": 2.0**-12, "bfloat16": 2.0**-9}
"""Half of the distance between 1 and the number below it."""
_BOUNDS = {"clamp": ("min", "max"), "clamp_max": ("max",), "clamp_min": ("min",)}


class MarginRoundsAway(Rule):
    """
    ## What it does
    Finds numbers such as `1 - 1e-8` that bound a `clamp`, or from which a tensor is subtracted, and that round to
    exactly 1 in the tensor's dtype. If the dtype is not known, float32 is assumed.

    ## Why is this bad?
    float32 has seven digits: the largest number below 1 is `1 - 6e-8`, so `1 - 1e-8` rounds to 1. The clamp lets 1
    through, and a following `log(1 - p)`, `acos(p)` or `atanh(p)` is still infinite, or its gradient is. In float16 the
    largest number below 1 is `1 - 5e-4`, in bfloat16 `1 - 4e-3`. Adding a small number only works for values that are
    small themselves: `(1 - p) + 1e-8`.

    ## Example
    ```python
    p = p.clamp(1e-8, 1 - 1e-8)
    loss = -(y * p.log() + (1 - y) * (1 - p).log())
    ```
    Use instead:
    ```python
    p = p.clamp(1e-7, 1 - 1e-7)
    loss = -(y * p.log() + (1 - y) * (1 - p).log())
    ```

    ## Fix safety
    Unsafe: values close to 1 change.
    """

    code, name, since = "DG418", "margin-rounds-away", "0.1"
    severity = "warning"
    calls = frozenset(_BOUNDS)
    VALID = [
        Valid("def f(p: torch.Tensor):\n    return p.clamp(1e-7, 1 - 1e-7), p.clamp(0, 1), p.clamp(min=1e-8)"),
        Valid("def f(p: torch.Tensor):\n    return p.double().clamp(1e-8, 1 - 1e-8).log(), (1 - p + 1e-8).log()"),
        Valid("def f(p: torch.Tensor, eps):\n    return p.clamp(eps, 1 - eps), p.half().clamp(max=1 - 1e-3)"),
        Valid("EPS = 1e-6\n\ndef f(p: torch.Tensor):\n    return torch.clip(p, EPS, 1.0 - EPS), 2 - p, 1.5 - p"),
        Valid(
            "def f(x, eps=1e-9):\n    return x.clamp(eps, 1 - eps)\n\n"
            "def g(x: torch.Tensor):\n    return f(x.double()), f(x, 1e-5)"
        ),
    ]
    INVALID = [
        Invalid(
            "def f(p: torch.Tensor, y: torch.Tensor):\n    p = p.clamp(1e-8, 1 - 1e-8)\n"
            "    return -(y * p.log() + (1 - y) * (1 - p).log()).mean()",
            "def f(p: torch.Tensor, y: torch.Tensor):\n    p = p.clamp(1e-8, 1 - 1e-7)\n"
            "    return -(y * p.log() + (1 - y) * (1 - p).log()).mean()",
            at=(2, 22, 2, 30),
        ),
        Invalid(
            "EPS = 1e-12\n\ndef angle(c: torch.Tensor):\n    return torch.acos(torch.clamp(c, -1.0 + EPS, 1.0 - EPS))",
            at=(4, 49, 4, 58),
        ),
        Invalid(
            "def f(x, layer: nn.Linear, eps=1e-9):\n    p = layer(x).sigmoid()\n"
            "    return torch.log(1 + eps - p).mean()",
            at=(3, 21, 3, 28),
        ),
        Invalid(
            "def f(p: torch.Tensor):\n    p = p.half().clamp(max=1 - 1e-4)\n    return (1 - p).log()",
            "def f(p: torch.Tensor):\n    p = p.half().clamp(max=1 - 1e-3)\n    return (1 - p).log()",
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        names = _BOUNDS.get(call.operation, ()) if call is not None else ()
        for name in reversed(names):
            bound, tensor = (call.operand(name), call.operand("input")) if call is not None else (None, None)
            if bound is not None and tensor is not None and (found := self._check(bound, tensor, ctx)) is not None:
                yield found
                return

    def visit_difference(self, node: ast.BinOp, ctx: Context) -> Iterator[Finding]:
        if isinstance(node.op, ast.Sub) and ctx.tensor(node.right) is not None:
            found = self._check(node.left, node.right, ctx)
            if found is not None:
                yield found

    def _check(self, bound: ast.expr, given: ast.expr, ctx: Context) -> Finding | None:
        if not isinstance(bound, ast.BinOp) and not isinstance(ctx.value(bound), Constant):
            return None
        number = number_of(bound, ctx)
        dtype = _dtype(ctx.tensor(given), ctx)
        if number is None or dtype is None or not 0 < abs(abs(number) - 1) <= _HALF_STEPS[dtype]:
            return None
        one = "1" if number > 0 else "-1"
        step = 2 * _HALF_STEPS[dtype]
        message = (
            f"`{ctx.source_of(bound)}` rounds to {one} in {dtype}, whose next value below 1 is 1 - {step:.0e}; the "
            "margin has no effect"
        )
        return ctx.finding(self, bound, message, fixes=[_fix(bound, dtype, ctx)])


def _dtype(tensor: Tensor | None, ctx: Context) -> str | None:
    """Return the dtype of a tensor; float32 where nothing is said of it, None where that would be no good guess."""
    known = tensor.dtype if tensor is not None else None
    if known is not None and known != "floating":
        return known if known in _HALF_STEPS else None
    return None if ctx.mentions("float64") or ctx.mentions("double()") else "float32"


def _fix(bound: ast.expr, dtype: str, ctx: Context) -> Fix | None:
    """Put a number in the place of the literal that is too small."""
    small = [n for n in walk(bound) if isinstance(n, ast.Constant) and isinstance(n.value, float) and n.value < 0.5]
    if not isinstance(bound, ast.BinOp) or len(small) != 1:
        return None
    enough = {"float32": "1e-7", "float16": "1e-3", "bfloat16": "1e-2"}[dtype]
    return ctx.fix(f"Use `{enough}`", ctx.replace(small[0], enough))
