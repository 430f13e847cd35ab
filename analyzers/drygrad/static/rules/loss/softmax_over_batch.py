"""Rule DG334: probabilities that sum to one over the batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Constant, Origin, Tensor, TorchCall
from drygrad.static.rules.loss.activations import layer_of
from drygrad.static.rules.loss.origins import LOGITS, maker
from drygrad.static.syntax import argument

_LOSSES = frozenset({"nll_loss", "binary_cross_entropy", "mse_loss", "kl_div"})


class SoftmaxOverBatch(Rule):
    """
    ## What it does
    Finds `softmax(dim=0)` and `log_softmax(dim=0)` on the output of a linear layer with shape (batch, classes), if the
    result goes into a loss, and attention weights from `softmax(dim=0)` that `bmm` multiplies sample by sample.

    ## Why is this bad?
    Dimension 0 is the batch: the probabilities of a class sum to one over the samples, instead of those of a sample
    over the classes, and in a batch of one sample every attention weight is 1. Samples compete with each other, and a
    prediction depends on the rest of the batch.

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
    calls = _LOSSES | {"bmm"}
    VALID = [
        Valid("def pooled(s: torch.Tensor, v):\n    return torch.bmm(s.softmax(-1).unsqueeze(1), v)"),
        Valid("def pooled(s: torch.Tensor, v):\n    return torch.bmm(s.softmax(0).unsqueeze(0), v)"),
        Valid("def pooled(s: torch.Tensor, v):\n    return torch.bmm(s.softmax(0).transpose(0, 1), v)"),
        Valid("def pooled(s: torch.Tensor, v):\n    return torch.mm(s.softmax(0), v)"),
        Valid("s = nn.Linear(10, 4)(torch.randn(8, 10))\nloss = F.nll_loss(s.log_softmax(1), y)"),
        Valid("s = nn.Linear(10, 4)(torch.randn(10))\nloss = F.nll_loss(s.log_softmax(0), y)"),
        Valid("def f(x, y):\n    return F.nll_loss(x.log_softmax(dim=0), y)"),
    ]
    INVALID = [
        Invalid(
            """
            class Pool(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.score, self.softmax = nn.Linear(16, 1), nn.Softmax(dim=0)

                def forward(self, frames):
                    weights = self.softmax(self.score(frames).squeeze(-1))
                    return torch.bmm(weights.unsqueeze(1), frames).squeeze(1)
            """,
            """
            class Pool(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.score, self.softmax = nn.Linear(16, 1), nn.Softmax(dim=-1)

                def forward(self, frames):
                    weights = self.softmax(self.score(frames).squeeze(-1))
                    return torch.bmm(weights.unsqueeze(1), frames).squeeze(1)
            """,
            at=(4, 53, 4, 70),
        ),
        Invalid(
            "def pooled(s: torch.Tensor, v):\n    return F.softmax(s, 0).transpose(1, 2).bmm(v)",
            "def pooled(s: torch.Tensor, v):\n    return F.softmax(s, -1).transpose(1, 2).bmm(v)",
        ),
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
        if call is not None and call.operation == "bmm":
            yield from self._attention(call, ctx)
            return
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

    def _attention(self, call: TorchCall, ctx: Context) -> Iterator[Finding]:
        """Find weights that sum to one over the dimension that ``bmm`` takes apart."""
        for operand in call.operands[:2]:
            made = _kept_apart(ctx.tensor(operand))
            if made is None or made.call is None:
                continue
            module = made.call.module.node if made.call.module is not None else None
            place = module if isinstance(module, ast.Call) else made.node
            written = argument(place, "dim", 0 if place is module else 1) if isinstance(place, ast.Call) else None
            is_zero = isinstance(written, ast.Constant) and written.value == 0
            fix = ctx.fix("Use the last dimension", ctx.replace(written, "-1")) if written and is_zero else None
            message = "softmax over dimension 0 normalizes across the batch: bmm then multiplies sample by sample"
            yield ctx.finding(self, place, message, related=[("multiplied here", operand)], fixes=[fix])
            return


def _kept_apart(tensor: Tensor | None) -> Origin | None:
    """Return the softmax over dimension 0 whose result has that dimension first at a ``bmm``, too."""
    origin, added = (tensor.origin if tensor is not None else None), 0
    while origin is not None and origin.operation in _BEHIND_THE_FIRST and origin.call is not None:
        dims = [value.value if isinstance(value, Constant) else 0 for value in origin.call.values[1:]]
        added += origin.operation == "unsqueeze"
        if 0 in dims or added > 1 or not dims:
            return None
        source = origin.operands[0] if origin.operands else None
        origin = source.origin if isinstance(source, Tensor) else None
    if origin is None or origin.operation != "softmax" or origin.call is None:
        return None
    return origin if origin.call.value("dim") == Constant(0) else None


_BEHIND_THE_FIRST = frozenset({"unsqueeze", "squeeze", "transpose"})
"""Operations that leave the first dimension first, unless they are given 0."""
