"""Rule DG334: probabilities that sum to one over the batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Constant, Tensor
from drygrad.static.rules.loss.activations import layer_of
from drygrad.static.rules.loss.origins import LOGITS, maker

_LOSSES = frozenset({"nll_loss", "binary_cross_entropy", "mse_loss", "kl_div"})


class SoftmaxOverBatch(Rule):
    """
    ## What it does
    Finds `softmax(dim=0)` and `log_softmax(dim=0)` on the output of a linear layer with shape (batch, classes), if the
    result goes into a loss.

    ## Why is this bad?
    Dimension 0 is the batch: the probabilities of a class sum to one over the samples, instead of those of a sample
    over the classes. Samples compete with each other, and a prediction depends on the rest of the batch.

    ## Example
    ```python
    scores = nn.Linear(10, 4)(torch.randn(8, 10))
    loss = F.nll_loss(scores.log_softmax(dim=0), labels)
    ```
    Use instead:
    ```python
    scores = nn.Linear(10, 4)(torch.randn(8, 10))
    loss = F.nll_loss(scores.log_softmax(dim=1), labels)
    ```

    ## Fix safety
    Unsafe: it changes the value of the loss.
    """

    code, name, since = "DG334", "softmax-over-batch", "0.1"
    severity = "warning"
    calls = _LOSSES
    VALID = [
        Valid("s = nn.Linear(10, 4)(torch.randn(8, 10))\nloss = F.nll_loss(s.log_softmax(1), y)"),
        Valid("s = nn.Linear(10, 4)(torch.randn(10))\nloss = F.nll_loss(s.log_softmax(0), y)"),
        Valid("def f(x, y):\n    return F.nll_loss(x.log_softmax(dim=0), y)"),
    ]
    INVALID = [
        Invalid(
            "s = nn.Linear(10, 4)(torch.randn(8, 10))\nloss = F.nll_loss(s.log_softmax(dim=0), y)",
            "s = nn.Linear(10, 4)(torch.randn(8, 10))\nloss = F.nll_loss(s.log_softmax(dim=1), y)",
            at=(2, 18, 2, 38),
        ),
        Invalid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 4))

                def forward(self, x):
                    return torch.softmax(self.body(x), 0)

            loss = nn.MSELoss()(Net()(torch.randn(8, 10)), torch.rand(8, 4))
            """,
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 4))

                def forward(self, x):
                    return torch.softmax(self.body(x), 1)

            loss = nn.MSELoss()(Net()(torch.randn(8, 10)), torch.rand(8, 4))
            """,
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        given = call.operand("input") if call is not None else None
        made = maker(ctx.tensor(given))
        if call is None or given is None or made is None or made.operation not in ("softmax", "log_softmax"):
            return
        scores = made.operands[0] if made.operands else None
        if not isinstance(scores, Tensor) or scores.shape is None or len(scores.shape) != 2 or made.call is None:
            return
        layer = maker(scores)
        if (
            made.call.value("dim") != Constant(0)
            or layer is None
            or layer.operation not in LOGITS
            or scores.shape[0] == 1
        ):
            return
        place = layer_of(ctx, made) or made.node
        written = made.call.keywords.get("dim") or next(iter(made.call.operands[1:]), None)
        fix = ctx.fix("Use the class dimension", ctx.replace(written, "1")) if written is not None else None
        message = f"{made.operation} over dimension 0 normalizes across the batch, not across each sample's classes"
        related = [(f"passed to {call.operation} here", given)] if place is not given else []
        yield ctx.finding(self, place, message, related=related, fixes=[fix])
