"""Rule DG323: logits that are compared with a probability."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import as_operand
from drygrad.static.facts.values import Constant
from drygrad.static.rules.loss.domains import made
from drygrad.static.rules.loss.origins import LOGITS


class LogitsComparedWithHalf(Rule):
    """
    ## What it does
    Finds `output > 0.5` where `output` is the raw output of a linear layer or a convolution, in a file that trains with
    `binary_cross_entropy_with_logits` or `BCEWithLogitsLoss`.

    ## Why is this bad?
    The loss applies the sigmoid itself, so the model returns logits. A logit of 0.5 is a probability of 62%; 50% is a
    logit of 0. Positives between the two are counted as negatives, so the reported accuracy is wrong.

    ## Example
    ```python
    logits = nn.Linear(8, 1)(x).squeeze(-1)
    loss = F.binary_cross_entropy_with_logits(logits, labels)
    correct = ((logits > 0.5) == labels).sum()
    ```
    Use instead:
    ```python
    logits = nn.Linear(8, 1)(x).squeeze(-1)
    loss = F.binary_cross_entropy_with_logits(logits, labels)
    correct = ((logits.sigmoid() > 0.5) == labels).sum()
    ```

    ## Fix safety
    Unsafe: it changes the count.
    """

    code, name, since = "DG323", "logits-compared-with-half", "0.1"
    severity = "warning"
    calls = frozenset({"gt", "ge", "lt", "le"})
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
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.Gt, ast.GtE, ast.Lt, ast.LtE)):
            yield from self._judge(node, (node.left, node.comparators[0]), ctx)

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        if call is not None:
            yield from self._judge(node, call.operands, ctx)

    def _judge(self, node: ast.expr, operands: tuple[ast.expr, ...], ctx: Context) -> Iterator[Finding]:
        compared = [operand for operand in operands if ctx.value(operand) != Constant(0.5)]
        found = made(ctx.tensor(compared[0])) if len(operands) == 2 and len(compared) == 1 else None
        if found is None or found.operation not in LOGITS or not ctx.derived(_trains_with_logits):
            return
        message = "these are logits, where 0.5 means a probability of 62%; compare with 0, or apply sigmoid first"
        fix = ctx.fix("Apply `sigmoid`", ctx.replace(compared[0], f"{as_operand(ctx, compared[0])}.sigmoid()"))
        yield ctx.finding(self, node, message, fixes=[fix])


def _trains_with_logits(ctx: Context) -> bool:
    calls = map(ctx.call, ctx.nodes(ast.Call))
    return any(call is not None and call.operation == "binary_cross_entropy_with_logits" for call in calls)
