"""Rule DG304: softmax before cross-entropy."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Origin, Tensor


class SoftmaxBeforeCrossEntropy(Rule):
    """
    ## What it does
    Finds probabilities (the result of `softmax`) passed to `cross_entropy`.

    ## Why is this bad?
    `cross_entropy` applies `log_softmax` itself. Applied to probabilities, which lie between 0 and 1, it sees
    logits that hardly differ: a confident mistake gets a gradient near zero, and the model learns slowly or not at all,
    without any error.

    ## Example
    ```python
    loss = F.cross_entropy(logits.softmax(dim=-1), target)
    ```
    Use instead:
    ```python
    loss = F.cross_entropy(logits, target)
    ```

    ## Fix safety
    Unsafe: it changes the value of the loss.
    """

    code, name, since = "DG304", "softmax-before-cross-entropy", "0.1"
    severity = "warning"
    calls = frozenset({"cross_entropy"})
    VALID = [
        Valid("def f(x, y):\n    return F.cross_entropy(x, y)"),
        Valid("def f(x, y):\n    # twice changes nothing\n    return F.cross_entropy(F.log_softmax(x, 1), y)"),
        Valid("def f(x, y):\n    p = x.softmax(-1)\n    return F.nll_loss(p.log(), y), F.cross_entropy(x, y)"),
    ]
    INVALID = [
        Invalid(
            "def f(x, y):\n    return F.cross_entropy(x.softmax(-1), y)",
            "def f(x, y):\n    return F.cross_entropy(x, y)",
            at=(2, 27, 2, 40),
        ),
        Invalid("def f(x, y):\n    p = torch.softmax(x, 1)\n    return nn.CrossEntropyLoss()(p, y)", at=(3, 33, 3, 34)),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        given = call.operand("input") if call else None
        tensor = ctx.tensor(given)
        if given is None or tensor is None or not tensor.made_by("softmax"):
            return
        origin = tensor.origin
        assert origin is not None
        yield ctx.finding(
            self,
            given,
            f"cross_entropy applies log_softmax itself; here it gets the result of {origin.operation}",
            related=[] if origin.node is given else [(f"{origin.operation} is applied here", origin.node)],
            fixes=[self._fix(given, origin, ctx)],
        )

    def _fix(self, given: ast.expr, origin: Origin, ctx: Context) -> Fix | None:
        """Pass what softmax was applied to, where it is applied right in the call."""
        if origin.node is not given or origin.call is None or not isinstance(origin.operands[0], Tensor):
            return None
        logits = ctx.source_of(origin.call.operands[0])
        return ctx.fix(f"Pass the logits: remove {origin.operation}", ctx.replace(given, logits))
