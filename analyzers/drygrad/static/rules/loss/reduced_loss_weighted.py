"""Rule DG327: weights or a mask that multiply a loss which is one number already."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import with_keyword
from drygrad.static.facts.operations import LOSSES
from drygrad.static.facts.values import Origin, Tensor, TorchCall
from drygrad.static.rules.loss.origins import maker
from drygrad.static.tree import walk

_WEIGHTS = re.compile(r"(^|_)(mask|masks|sample_weights?|weights|is_weights?|importance)(_|$)", re.I)


class ReducedLossWeighted(Rule):
    """
    ## What it does
    Finds the mean or sum of `loss * weights`, where `loss` comes from a torch loss with its default reduction, and
    `weights`, or a mask, has several elements.

    ## Why is this bad?
    The loss is already a single number, the mean over all elements. Multiplying it by weights and averaging gives the
    same loss times the mean weight: padded positions still count, and rare samples weigh no more than others. Nothing
    raises. `reduction="none"` gives the loss of each element.

    ## Example
    ```python
    loss = F.cross_entropy(scores, labels)
    loss = (loss * mask).sum() / mask.sum()
    ```
    Use instead:
    ```python
    loss = F.cross_entropy(scores, labels, reduction="none")
    loss = (loss * mask).sum() / mask.sum()
    ```

    ## Fix safety
    Unsafe: it changes the value of the loss.
    """

    code, name, since = "DG327", "reduced-loss-weighted", "0.1"
    severity = "warning"
    calls = frozenset({"sum", "mean"})
    VALID = [
        Valid("def f(x, y, mask):\n    return (F.cross_entropy(x, y, reduction='none') * mask).sum() / mask.sum()"),
        Valid("def f(x, y, w):\n    loss = w * F.mse_loss(x, y)\n    return loss.mean()"),
        Valid("def f(x, y, a, b):\n    return (0.5 * F.mse_loss(x, y)).mean() + (F.l1_loss(a, b) * 2).sum()"),
        Valid("def f(x, y, mask):\n    return ((x - y) ** 2 * mask).sum() / mask.sum() * F.mse_loss(x, y)"),
        Valid("def f(x, y, w):\n    loss = nn.BCELoss(reduction='none')(x, y)\n    return (w * loss).mean()"),
        Valid("x, y, sigma = torch.randn(8), torch.randn(8), torch.ones(())\nloss = (F.mse_loss(x, y) * sigma).mean()"),
    ]
    INVALID = [
        Invalid(
            """
            def loss_of(logits, labels, mask):
                loss = F.cross_entropy(logits, labels)
                return (loss * mask).sum() / mask.sum()
            """,
            """
            def loss_of(logits, labels, mask):
                loss = F.cross_entropy(logits, labels, reduction="none")
                return (loss * mask).sum() / mask.sum()
            """,
            at=(3, 12, 3, 23),
        ),
        Invalid(
            "x, y, w = torch.randn(8, 1), torch.randn(8, 1), torch.rand(8, 1)\n"
            "loss = torch.mean(w * nn.MSELoss()(x, y))",
            "x, y, w = torch.randn(8, 1), torch.randn(8, 1), torch.rand(8, 1)\n"
            'loss = torch.mean(w * nn.MSELoss(reduction="none")(x, y))',
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        product = _product(ctx.tensor(call.operands[0])) if call is not None and call.operands else None
        if product is None:
            return
        for loss, weights in ((product[0], product[1]), (product[1], product[0])):
            made = _reduced(ctx.tensor(loss))
            if made is not None and made.call is not None and _is_several(ctx, weights):
                title = 'Pass `reduction="none"` to the loss'
                related = [] if made.node is loss else [(f"{made.operation} takes the mean here", made.node)]
                yield ctx.finding(
                    self,
                    product[2],
                    f"{made.operation} has already averaged the loss to one number; per-sample weights have no effect",
                    related=related,
                    fixes=[ctx.fix(title, _kept(ctx, made.call))],
                )


def _product(tensor: Tensor | None) -> tuple[ast.expr, ast.expr, ast.expr] | None:
    """Return the two factors whose product a tensor is, and the product."""
    origin = tensor.origin if tensor is not None else None
    if origin is None or origin.operation != "mul":
        return None
    match origin.node:
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return left, right, origin.node
        case _:
            return None


def _reduced(tensor: Tensor | None) -> Origin | None:
    """Return the loss of torch's that made a tensor of one number."""
    origin = maker(tensor)
    if origin is None or origin.operation not in LOSSES or origin.call is None:
        return None
    plain = origin.call.value("reduce") is None and origin.call.value("size_average") is None
    reduction = origin.call.constant("reduction", "mean")
    return origin if plain and reduction in ("mean", "sum", "batchmean") else None


def _is_several(ctx: Context, weights: ast.expr) -> bool:
    """Say whether a factor is a tensor of several elements, or called like one."""
    tensor = ctx.tensor(weights)
    if tensor is not None and tensor.shape is not None:
        return len(tensor.shape) > 0 and any(size != 1 for size in tensor.shape)
    names = (
        n.id if isinstance(n, ast.Name) else n.attr for n in walk(weights) if isinstance(n, (ast.Name, ast.Attribute))
    )
    return any(_WEIGHTS.search(name) for name in names)


def _kept(ctx: Context, call: TorchCall) -> Edit | None:
    """Ask for the elements' own losses, where that changes this call only."""
    if call.module is None:
        return with_keyword(ctx, call.node, "reduction", '"none"')
    uses = [c for c in ctx.facts.recording.calls.values() if c.module and c.module.node is call.module.node]
    return with_keyword(ctx, call.module.node, "reduction", '"none"') if len(uses) == 1 else None
