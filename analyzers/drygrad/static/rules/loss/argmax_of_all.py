"""Rule DG325: an argmax over the whole batch that is compared with labels."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import with_keyword
from drygrad.static.facts.values import Origin, Tensor


class ArgmaxOfAll(Rule):
    """
    ## What it does
    Finds `argmax()` without `dim` on a batch of scores if the result is compared with the labels of the batch.

    ## Why is this bad?
    Without `dim`, `argmax` returns a single index into all scores of all samples. Compared with the labels, it
    broadcasts: nothing raises, and the accuracy is close to zero or to chance, whatever the model has learned.

    ## Example
    ```python
    scores, labels = torch.randn(8, 5), torch.randint(0, 5, (8,))
    accuracy = (torch.argmax(scores) == labels).float().mean()
    ```
    Use instead:
    ```python
    scores, labels = torch.randn(8, 5), torch.randint(0, 5, (8,))
    accuracy = (torch.argmax(scores, dim=1) == labels).float().mean()
    ```

    ## Fix safety
    Unsafe: it changes the count.
    """

    code, name, since = "DG325", "argmax-of-all", "0.1"
    severity = "warning"
    calls = frozenset({"eq", "ne"})
    VALID = [
        Valid("s, y = torch.randn(8, 5), torch.randint(0, 5, (8,))\nhits = (s.argmax(1) == y).sum()"),
        Valid("def f(s, y):\n    return (s.argmax() == y).item()"),
        Valid("s = torch.randn(1, 5)\nhit = s.argmax() == torch.tensor([2])"),
        Valid("s, y = torch.randn(5), torch.randint(0, 5, (8,))\nhits = (s.argmax() == y).sum()"),
    ]
    INVALID = [
        Invalid(
            "s, y = torch.randn(8, 5), torch.randint(0, 5, (8,))\nhits = (torch.argmax(s) == y).sum()",
            "s, y = torch.randn(8, 5), torch.randint(0, 5, (8,))\nhits = (torch.argmax(s, dim=1) == y).sum()",
            at=(2, 8, 2, 23),
        ),
        Invalid(
            "s, y = torch.randn(8, 5), torch.randint(0, 5, (8,))\np = s.argmax()\nhits = y.eq(p).float().mean()",
            "s, y = torch.randn(8, 5), torch.randint(0, 5, (8,))\np = s.argmax(dim=1)\nhits = y.eq(p).float().mean()",
            at=(2, 4, 2, 14),
        ),
    ]

    def visit_compare(self, node: ast.Compare, ctx: Context) -> Iterator[Finding]:
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
            yield from self._judge(node.left, node.comparators[0], ctx)

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        if call is not None and len(call.operands) == 2:
            yield from self._judge(*call.operands, ctx)

    def _judge(self, first: ast.expr, second: ast.expr, ctx: Context) -> Iterator[Finding]:
        for index, labels in ((first, second), (second, first)):
            made = _of_all(ctx.tensor(index))
            given = ctx.tensor(labels)
            if made is None or made.call is None or given is None or not given.shape or given.shape[0] == 1:
                continue
            related = [("the result is compared with the labels here", labels)] if made.node is not index else []
            fix = ctx.fix("Pass `dim=` to take it over each sample's classes", with_keyword(ctx, made.node, "dim", "1"))
            message = "argmax without dim returns one index into all scores, not one class per sample"
            yield ctx.finding(self, made.node, message, related=related, fixes=[fix])


def _of_all(tensor: Tensor | None) -> Origin | None:
    """Return the argmax over a whole batch that made a tensor."""
    origin = tensor.origin if tensor is not None else None
    while origin is not None and origin.operation in ("cpu", "to", "long", "int", "detach") and origin.operands:
        source = origin.operands[0]
        origin = source.origin if isinstance(source, Tensor) else None
    if origin is None or origin.operation != "argmax" or origin.call is None or origin.call.value("dim") is not None:
        return None
    scores = origin.operands[0] if origin.operands else None
    if not isinstance(scores, Tensor) or scores.shape is None or len(scores.shape) != 2:
        return None
    return origin if scores.shape[0] != 1 else None
