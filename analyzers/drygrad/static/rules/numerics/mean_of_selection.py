"""Rule DG424: the mean of what a mask has chosen, which may be nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.operations import LOSSES
from drygrad.static.facts.values import Constant, Number, TorchCall
from drygrad.static.rules.numerics.guards import names_in, records_gradient
from drygrad.static.syntax import last_assignment
from drygrad.static.tree import walk

_COUNTS = frozenset({"any", "sum", "numel", "count_nonzero", "nonzero", "all", "nan_to_num", "isnan", "size", "len"})


class MeanOfSelection(Rule):
    """
    ## What it does
    Finds, in what a model or a loss computes, means and losses over the elements selected by a comparison with a number
    (`F.smooth_l1_loss(box[positive], target[positive])`), without a check that any are selected.

    ## Why is this bad?
    If the selection is empty (a batch without a positive, an image without a valid pixel), the mean is NaN, and so are
    its gradient and, after the step, all weights. It happens in one batch of many, hours into training. A sum divided
    by a count of at least one is 0 there.

    ## Example
    ```python
    def box_loss(box: torch.Tensor, target: torch.Tensor, labels: torch.Tensor):
        positive = labels > 0
        return F.smooth_l1_loss(box[positive], target[positive])
    ```
    Use instead:
    ```python
    def box_loss(box: torch.Tensor, target: torch.Tensor, labels: torch.Tensor):
        positive = labels > 0
        return F.smooth_l1_loss(box[positive], target[positive], reduction="sum") / positive.sum().clamp(min=1)
    ```

    ## Fix safety
    No fix: what an empty selection should contribute is your choice.
    """

    code, name, since = "DG424", "mean-of-selection", "0.1"
    severity = "info"
    calls = LOSSES | {"mean"}
    VALID = [
        Valid(
            """
            def box_loss(box: torch.Tensor, target: torch.Tensor, labels: torch.Tensor, ids: torch.Tensor, count):
                positive = labels > 0
                total = F.smooth_l1_loss(box[positive], target[positive], reduction="sum") / positive.sum().clamp(min=1)
                real = (box - target).abs()[ids != 0].mean()
                few = labels > 3
                if few.any():
                    total = total + F.l1_loss(box[few], target[few])
                rows = torch.arange(4)
                chosen = torch.rand(4).argsort() < count.clamp(min=1)
                total = total + box[chosen].mean()
                return total + real + box[rows].mean() + box[labels].mean()

            def report(box: torch.Tensor, labels: torch.Tensor):
                return box[labels > 0].mean()
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            def box_loss(box: torch.Tensor, target: torch.Tensor, labels: torch.Tensor):
                positive = labels > 0
                return F.smooth_l1_loss(box[positive], target[positive])
            """,
            at=(3, 11, 3, 60),
        ),
        Invalid(
            """
            def depth_loss(depth: torch.Tensor, target: torch.Tensor):
                return (depth - target).abs()[target > 0].mean()
            """,
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        if call is None or not call.operands or not _is_mean(call):
            return
        mask = _mask_of(call.operands[0], ctx)
        if mask is None or records_gradient(node, ctx, ctx.tensor(call.operands[0])) == "no":
            return
        if not _is_asked_about(mask, node, ctx):
            text = ctx.source_of(mask)
            message = f"where `{text}` selects nothing, the mean is NaN, and so are all gradients"
            yield ctx.finding(self, node, message)


def _is_mean(call: TorchCall) -> bool:
    if call.operation == "mean":
        return len(call.operands) == 1 and not call.keywords
    return call.value("reduction") in (None, Constant("mean"))


def _mask_of(node: ast.expr, ctx: Context) -> ast.expr | None:
    """Return the comparison, or its name, by which an expression picks elements; None where it is about padding."""
    match node:
        case ast.Subscript(slice=ast.Compare() | ast.Name() as mask):
            picked = last_assignment(ctx, mask.id, ctx.statement(node)) if isinstance(mask, ast.Name) else mask
        case _:
            return None
    match picked:
        case ast.Compare(ops=[ast.Gt() | ast.GtE() | ast.Lt() | ast.LtE() | ast.Eq()], comparators=[bound]):
            return mask if isinstance(ctx.value(bound), (Constant, Number)) else None
        case _:
            return None


def _is_asked_about(mask: ast.expr, node: ast.expr, ctx: Context) -> bool:
    """Say whether the function counts what the mask picks, or tests it, anywhere."""
    names = {mask.id} if isinstance(mask, ast.Name) else set(names_in(mask, ctx))
    scope = ctx.function(node) or ctx.tree
    for part in walk(scope):
        match part:
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) | ast.Assert(test=test):
                asked = set(names_in(test, ctx))
            case ast.Call(func=ast.Attribute(value=owner, attr=attribute)) if attribute in _COUNTS:
                asked = set(names_in(owner, ctx)) | {n for a in part.args for n in names_in(a, ctx)}
            case ast.Call(func=ast.Name(id="len" | "sum"), args=[given]):
                asked = set(names_in(given, ctx))
            case _:
                continue
        if asked & names:
            return True
    return False
