"""Rule DG767: mean losses of batches that are added up and divided by the number of samples."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.operations import LOSSES
from drygrad.static.facts.values import Constant, Object
from drygrad.static.rules.loss.origins import maker
from drygrad.static.syntax import body_nodes, scope_of
from drygrad.static.tree import walk


class MeanLossesOverSamples(Rule):
    """
    ## What it does
    Finds `total / len(loader.dataset)` where each batch added `loss.item()`, the mean over the batch.

    ## Why is this bad?
    The mean of each batch counts like a single sample: the reported loss is too small by a factor of the batch size and
    depends on it. Runs with different batch sizes, or training and validation, are not comparable. Either multiply each
    mean by the batch size, or divide by the number of batches.

    ## Example
    ```python
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        total += loss.item()
    print(total / len(loader.dataset))
    ```
    Use instead:
    ```python
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        total += loss.item() * len(y)
    print(total / len(loader.dataset))
    ```

    ## Fix safety
    Unsafe: it changes the reported number.
    """

    code, name, since = "DG767", "mean-losses-over-samples", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            def f(model, loader):
                total, summed = 0.0, 0.0
                for x, y in loader:
                    loss = F.cross_entropy(model(x), y)
                    total += loss.item() * x.size(0)
                    summed += F.cross_entropy(model(x), y, reduction="sum").item()
                return total / len(loader.dataset), summed / len(loader.dataset)
            """
        ),
        Valid(
            """
            def f(model, loader):
                total = 0.0
                for x, y in loader:
                    total += F.cross_entropy(model(x), y).item()
                return total / len(loader)
            """
        ),
        Valid(
            """
            def f(model, dataset):
                total = 0.0
                for x, y in torch.utils.data.DataLoader(dataset, batch_size=1):
                    total += F.mse_loss(model(x), y).item()
                return total / len(dataset)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            def f(model, loader, optimizer):
                running_loss = 0.0
                for x, y in loader:
                    loss = nn.CrossEntropyLoss()(model(x), y)
                    loss.backward()
                    running_loss += loss.item()
                return running_loss / len(loader.dataset)
            """,
            """
            def f(model, loader, optimizer):
                running_loss = 0.0
                for x, y in loader:
                    loss = nn.CrossEntropyLoss()(model(x), y)
                    loss.backward()
                    running_loss += loss.item()
                return running_loss / len(loader)
            """,
            at=(7, 11, 7, 45),
        ),
    ]

    def visit_division(self, node: ast.BinOp, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.BinOp(
                left=ast.Name(id=total),
                op=ast.Div(),
                right=ast.Call(func=ast.Name(id="len"), args=[ast.Attribute(value=loader, attr="dataset") as samples]),
            ):
                source = dotted_text(loader)
            case _:
                return
        for loop in body_nodes(scope_of(node, ctx)):
            if not isinstance(loop, ast.For) or loop.lineno > node.lineno or not _goes_over(loop.iter, source):
                continue
            added = [n for n in body_nodes(loop) if isinstance(n, ast.AugAssign) and dotted_text(n.target) == total]
            if len(added) == 1 and _is_mean(added[0], ctx) and not _has_single_samples(loader, ctx):
                message = (
                    f"{total} sums batch means but is divided by the number of samples; it is too small by the "
                    "batch size"
                )
                fix = ctx.fix("Divide by the number of batches", ctx.replace(samples, source or ""))
                yield ctx.finding(self, node, message, related=[("a batch mean is added here", added[0])], fixes=[fix])
                return


def _goes_over(iterable: ast.expr, source: str | None) -> bool:
    return any(isinstance(n, (ast.Name, ast.Attribute)) and dotted_text(n) == source for n in walk(iterable))


def _is_mean(added: ast.AugAssign, ctx: Context) -> bool:
    """Say whether the mean of a loss is added as it is."""
    match added.value:
        case ast.Call(func=ast.Attribute(value=loss, attr="item"), args=[]):
            pass
        case ast.Call(func=ast.Name(id="float"), args=[loss]):
            pass
        case loss:
            pass
    made = maker(ctx.tensor(loss))
    if not isinstance(added.op, ast.Add) or made is None or made.operation not in LOSSES or made.call is None:
        return False
    plain = made.call.value("reduce") is None and made.call.value("size_average") is None
    return plain and made.call.constant("reduction", "mean") == "mean"


def _has_single_samples(loader: ast.expr, ctx: Context) -> bool:
    """Say whether a loader is known to give one sample at a time."""
    value = ctx.value(loader)
    if not isinstance(value, Object):
        return False
    return value.arguments.complete and value.arguments.get("batch_size", 1) in (None, Constant(1))
