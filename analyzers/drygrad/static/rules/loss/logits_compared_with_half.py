"""Rule DG323: logits that are compared with a probability."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import as_operand
from drygrad.static.facts.operations import VIEWS
from drygrad.static.facts.values import Constant, Tensor

_WITH_LOGITS = "binary_cross_entropy_with_logits"
_KEEPS = VIEWS | {"to", "float", "cpu"}


class LogitsComparedWithHalf(Rule):
    """
    ## What it does
    Finds `output > 0.5` where `output` comes straight from a linear layer, in a file that trains with
    `binary_cross_entropy_with_logits` or `BCEWithLogitsLoss`.

    ## Why is this bad?
    The loss applies the sigmoid itself, so the model returns logits. A logit of 0.5 is a probability of 62%; 50% is a
    logit of 0. Positives between the two are counted as negatives, so the reported accuracy is wrong.

    ## Example
    ```python
    loss = F.binary_cross_entropy_with_logits(logits, labels)
    correct = ((logits > 0.5) == labels).sum()
    ```
    Use instead:
    ```python
    loss = F.binary_cross_entropy_with_logits(logits, labels)
    correct = ((logits.sigmoid() > 0.5) == labels).sum()
    ```

    ## Fix safety
    Unsafe: it changes the count.
    """

    code, name, since = "DG323", "logits-compared-with-half", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            def step(model: nn.Linear, x, y):
                logits = model(x)
                loss = F.binary_cross_entropy_with_logits(logits, y)
                return loss, (logits > 0), (logits.sigmoid() > 0.5)
            """
        ),
        Valid("def step(model: nn.Linear, x):\n    return model(x) > 0.5"),
    ]
    INVALID = [
        Invalid(
            """
            def step(model: nn.Linear, x, y):
                logits = model(x).squeeze(-1)
                loss = F.binary_cross_entropy_with_logits(logits, y)
                return loss, ((logits > 0.5) == y).float().mean()
            """,
            """
            def step(model: nn.Linear, x, y):
                logits = model(x).squeeze(-1)
                loss = F.binary_cross_entropy_with_logits(logits, y)
                return loss, ((logits.sigmoid() > 0.5) == y).float().mean()
            """,
            at=(4, 19, 4, 31),
        ),
    ]

    def visit_compare(self, node: ast.Compare, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.Compare(ops=[ast.Gt() | ast.GtE() | ast.Lt() | ast.LtE()], comparators=[half]):
                pass
            case _:
                return
        if ctx.value(half) != Constant(0.5) or not _is_raw(ctx.tensor(node.left)) or not _trains_with_logits(ctx):
            return
        message = "these are logits, where 0.5 means a probability of 62%; compare with 0, or apply sigmoid first"
        fix = ctx.fix("Apply `sigmoid`", ctx.replace(node.left, f"{as_operand(ctx, node.left)}.sigmoid()"))
        yield ctx.finding(self, node, message, fixes=[fix])


def _is_raw(tensor: Tensor | None) -> bool:
    """Say whether a tensor is the output of a linear layer, at most laid out anew."""
    origin = tensor.origin if tensor is not None else None
    while origin is not None and origin.operation in _KEEPS and origin.operands:
        inner = origin.operands[0]
        origin = inner.origin if isinstance(inner, Tensor) else None
    return origin is not None and origin.operation == "linear"


def _trains_with_logits(ctx: Context) -> bool:
    return ctx.derived(_uses_the_loss)


def _uses_the_loss(ctx: Context) -> bool:
    return any((call := ctx.call(node)) is not None and call.operation == _WITH_LOGITS for node in ctx.nodes(ast.Call))
