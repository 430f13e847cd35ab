"""Rule DG332: positives and negatives that are exchanged in a triplet loss."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.tree import walk

_POSITIVE = re.compile(r"(^|_)(pos|positives?|p)(_|$|\d)", re.I)
_NEGATIVE = re.compile(r"(^|_)(neg|negatives?|n)(_|$|\d)", re.I)


class TripletOrder(Rule):
    """
    ## What it does
    Finds `triplet_margin_loss(anchor, negative, positive)`, judged by the names of the arguments.

    ## Why is this bad?
    The loss pulls the second argument toward the anchor and pushes the third away. With the two swapped, the model
    learns the opposite.

    ## Example
    ```python
    loss = F.triplet_margin_loss(anchor, negative, positive)
    ```
    Use instead:
    ```python
    loss = F.triplet_margin_loss(anchor, positive, negative)
    ```

    ## Fix safety
    Unsafe: it changes the value of the loss.
    """

    code, name, since = "DG332", "triplet-order", "0.1"
    severity = "warning"
    calls = frozenset({"triplet_margin_loss"})
    VALID = [
        Valid("def f(anchor, positive, negative):\n    return F.triplet_margin_loss(anchor, positive, negative)"),
        Valid("def f(a, neg, pos):\n    return F.triplet_margin_loss(a, positive=pos, negative=neg)"),
        Valid("def f(a, b, c):\n    return nn.TripletMarginLoss()(a, b, c)"),
    ]
    INVALID = [
        Invalid(
            "def f(net, anchor, positive, negative):\n"
            "    return nn.TripletMarginLoss()(net(anchor), net(negative), net(positive))",
            "def f(net, anchor, positive, negative):\n"
            "    return nn.TripletMarginLoss()(net(anchor), net(positive), net(negative))",
            at=(2, 47, 2, 60),
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        if call is None or len(node.args) < 3 or call.node is not node:
            return
        second, third = node.args[1], node.args[2]
        if _is(second, _NEGATIVE, _POSITIVE) and _is(third, _POSITIVE, _NEGATIVE):
            edits = ctx.replace(second, ctx.source_of(third)), ctx.replace(third, ctx.source_of(second))
            message = "the second argument is the positive, but this is the negative"
            yield ctx.finding(self, second, message, fixes=[ctx.fix("Swap the two", *edits)])


def _is(node: ast.expr, wanted: re.Pattern[str], other: re.Pattern[str]) -> bool:
    names = [
        n.id if isinstance(n, ast.Name) else n.attr for n in walk(node) if isinstance(n, (ast.Name, ast.Attribute))
    ]
    return any(wanted.search(name) for name in names) and not any(other.search(name) for name in names)
