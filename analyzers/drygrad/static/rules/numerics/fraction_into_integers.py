"""Rule DG419: a fraction that is written into a tensor of integers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import as_operand
from drygrad.static.facts.events import InplaceWrite
from drygrad.static.facts.values import INTEGERS, NONE, Tensor, TorchCall
from drygrad.static.numbers import number_of

_POSITIONS = {"full_like": 1, "new_full": 2, "masked_fill": 2, "fill": 1, "index_fill": 3}
_FRACTIONS = ("rand", "rand_like", "softmax", "sigmoid", "div", "mean")
"""Operations whose results lie between the integers."""


class FractionIntoIntegers(Rule):
    """
    ## What it does
    Finds fractional numbers written into an integer tensor: `target[mask] = 0.9`, `torch.full_like(labels, 0.9)`,
    `labels.masked_fill(mask, 0.5)`.

    ## Why is this bad?
    The tensor keeps its dtype, and torch silently truncates the number: 0.9 becomes 0. The result of `F.one_hot`, class
    labels, and `zeros_like` of them are int64. Soft labels written into such a tensor are all zero, and the loss looks
    excellent.

    ## Example
    ```python
    target = F.one_hot(labels, 10)
    target[target == 1] = 0.9
    ```
    Use instead:
    ```python
    target = F.one_hot(labels, 10).float()
    target[target == 1] = 0.9
    ```

    ## Fix safety
    Unsafe: the dtype of the result changes.
    """

    code, name, since = "DG419", "fraction-into-integers", "0.1"
    severity = "warning"
    calls = frozenset({"full_like", "masked_fill", "new_full", "fill", "index_fill"})
    VALID = [
        Valid(
            """
            def split(n):
                values = torch.zeros((n, 2), dtype=torch.int64)
                values[:, 0] = torch.div(torch.arange(n), 3, rounding_mode="floor")
                return values
            """
        ),
        Valid(
            """
            def targets(labels: torch.Tensor, eps=0.1):
                soft = F.one_hot(labels.long(), 10).float()
                soft[soft == 1] = 1 - eps
                hard = torch.zeros_like(labels.long())
                hard[0] = 1.0
                hard[1] = soft.argmax()
                other = torch.full_like(labels.long(), 0.5, dtype=torch.float32)
                return soft, hard, other, torch.full_like(labels, 0.5), labels.masked_fill(labels > 3, 0.5)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            def smooth(labels: torch.Tensor, classes, eps=0.1):
                target = F.one_hot(labels, classes)
                target[target == 1] = 1 - eps
                target[target == 0] = eps / (classes - 1)
                return target
            """,
            at=(3, 4, 3, 33),
        ),
        Invalid(
            "labels = torch.ones(8, dtype=torch.long)\nreal = torch.full_like(labels, 0.9)",
            "labels = torch.ones(8, dtype=torch.long)\nreal = torch.full_like(labels.float(), 0.9)",
            at=(2, 7, 2, 35),
        ),
        Invalid(
            """
            def targets(logits: torch.Tensor, mask):
                labels = logits.argmax(-1)
                return labels.masked_fill(mask, 0.5)
            """,
            """
            def targets(logits: torch.Tensor, mask):
                labels = logits.argmax(-1)
                return labels.float().masked_fill(mask, 0.5)
            """,
        ),
        Invalid(
            """
            weights = torch.zeros(4, dtype=torch.int64)
            weights[0] = torch.rand(())
            """,
            at=(2, 0, 2, 27),
        ),
    ]

    def visit_write(self, write: InplaceWrite, ctx: Context) -> Iterator[Finding]:
        if write.operation != "setitem" or write.target.dtype not in INTEGERS:
            return
        statement = ctx.statement(write.node)
        if not isinstance(statement, ast.Assign) or write.node not in statement.targets:
            return
        message = _message(statement.value, write.target, ctx)
        if message is not None:
            yield ctx.finding(self, statement, message)

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        if call is None or not call.operands or call.value("dtype") is not None or "dtype" in call.keywords:
            return
        target = ctx.tensor(call.operands[0])
        given = _given(call)
        if target is None or target.dtype not in INTEGERS or given is None:
            return
        message = _message(given, target, ctx)
        if message is not None:
            yield ctx.finding(self, node, message, fixes=[] if call.inplace else [_fix(call, ctx)])


def _given(call: TorchCall) -> ast.expr | None:
    """Return the number that a tensor is filled with."""
    named = call.keywords.get("fill_value") or call.keywords.get("value")
    position = _POSITIONS[call.operation]
    return named or (call.operands[position] if position < len(call.operands) else None)


def _message(given: ast.expr, target: Tensor, ctx: Context) -> str | None:
    number = number_of(given, ctx)
    if number is not None:
        cut = isinstance(number, float) and abs(number) < 2**62 and not number.is_integer()
        return f"{number:g} is truncated to {int(number)}; this tensor is {target.dtype}" if cut else None
    value = ctx.value(given)
    if isinstance(value, Tensor) and value.made_by(*_FRACTIONS) and value.dtype not in INTEGERS and not _rounds(value):
        return f"`{ctx.source_of(given)}` is truncated to an integer; this tensor is {target.dtype}"
    return None


def _rounds(value: Tensor) -> bool:
    """Say whether a division may round: ``torch.div(a, b, rounding_mode="floor")`` of integers gives integers."""
    call = value.origin.call if value.origin is not None else None
    return call is not None and (call.value("rounding_mode") or NONE) != NONE


def _fix(call: TorchCall, ctx: Context) -> Fix | None:
    given = call.operands[0]
    return ctx.fix("Use a float tensor", ctx.replace(given, f"{as_operand(ctx, given)}.float()"))
