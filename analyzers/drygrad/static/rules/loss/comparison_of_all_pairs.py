"""Rule DG324: predictions and labels whose comparison broadcasts to all pairs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.shapes import shape_text
from drygrad.static.facts.values import Tensor
from drygrad.static.rules.loss.pairs import Sized, aligned, is_accident, sized
from drygrad.static.tree import walk

_COUNTS = frozenset({"sum", "mean", "count_nonzero"})


class ComparisonOfAllPairs(Rule):
    """
    ## What it does
    Finds `(prediction == labels).sum()` and the like on shapes such as (N, 1) and (N,), which broadcast to (N, N).

    ## Why is this bad?
    Each prediction is compared with every label, and nothing raises. A sum over the matches usually gives an accuracy
    above 100%; a mean only says how often each class occurs. Neither has anything to do with the model.

    ## Example
    ```python
    prediction, labels = (torch.rand(8, 1) > 0.5).long(), torch.randint(0, 2, (8,))
    correct = (prediction == labels).sum()
    ```
    Use instead:
    ```python
    prediction, labels = (torch.rand(8, 1) > 0.5).long(), torch.randint(0, 2, (8,))
    correct = (prediction == labels.unsqueeze(1)).sum()
    ```

    ## Fix safety
    Unsafe: it changes the count.
    """

    code, name, since = "DG324", "comparison-of-all-pairs", "0.1"
    severity = "warning"
    calls = _COUNTS
    VALID = [
        Valid("p, y = torch.rand(8, 1), torch.rand(8, 1)\nhits = (p == y).sum()"),
        Valid("y = torch.randint(0, 9, (8,))\nsame = (y.unsqueeze(1) == y).sum() + (y[:, None] == y).float().mean()"),
        Valid("labels = torch.randint(0, 9, (8, 1))\nmask = torch.eq(labels, labels.T).float().sum()"),
        Valid("p, classes = torch.randint(0, 5, (8, 1)), torch.arange(5)\nhistogram = (p == classes).sum(0)"),
        Valid("p, y = torch.rand(8, 1), torch.rand(8)\ntable = p == y"),
    ]
    INVALID = [
        Invalid(
            "p, y = torch.rand(8, 1).round(), torch.rand(8)\nhits = (p == y).sum().item()",
            "p, y = torch.rand(8, 1).round(), torch.rand(8)\nhits = (p == y.unsqueeze(1)).sum().item()",
            at=(2, 8, 2, 14),
        ),
        Invalid(
            "p, y = torch.rand(8, 1).round(), torch.rand(8)\naccuracy = torch.eq(p, y).float().mean()",
            "p, y = torch.rand(8, 1).round(), torch.rand(8)\naccuracy = torch.eq(p, y.unsqueeze(1)).float().mean()",
        ),
        Invalid(
            """
            from torch.utils.data import DataLoader, TensorDataset

            def evaluate(model: nn.Linear):
                data = TensorDataset(torch.randn(64, 10), torch.randint(0, 2, (64,)))
                net, correct = nn.Linear(10, 1), 0
                for x, y in DataLoader(data, batch_size=16):
                    predicted = torch.sigmoid(net(x)).round()
                    correct += (predicted == y).float().sum()
                return correct / len(data)
            """,
            """
            from torch.utils.data import DataLoader, TensorDataset

            def evaluate(model: nn.Linear):
                data = TensorDataset(torch.randn(64, 10), torch.randint(0, 2, (64,)))
                net, correct = nn.Linear(10, 1), 0
                for x, y in DataLoader(data, batch_size=16):
                    predicted = torch.sigmoid(net(x)).round()
                    correct += (predicted == y.unsqueeze(1)).float().sum()
                return correct / len(data)
            """,
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        if call is None or call.operation not in _COUNTS or len(call.operands) > 1 or call.keywords:
            return
        compared = _compared(ctx, call.operands[0]) if call.operands else None
        sides = [sized(ctx, side) for side in compared[1:]] if compared is not None else []
        if compared is None or sides[0] is None or sides[1] is None:
            return
        first, second = sides[0], sides[1]
        if is_accident(ctx, first, second) and not _one_made_of_the_other(ctx, first, second):
            shapes = f"{shape_text(first.shape)} and {shape_text(second.shape)}"
            message = f"{shapes} broadcast against each other; each prediction is compared with every label"
            yield ctx.finding(self, compared[0], message, fixes=aligned(ctx, first, second))


def _compared(ctx: Context, counted: ast.expr) -> tuple[ast.expr, ast.expr, ast.expr] | None:
    """Return the comparison whose matches are counted, and its two sides."""
    tensor = ctx.tensor(counted)
    origin = tensor.origin if tensor is not None else None
    while (
        origin is not None and origin.operation in ("float", "long", "int", "to", "double", "item") and origin.operands
    ):
        source = origin.operands[0]
        origin = source.origin if isinstance(source, Tensor) else None
    if origin is None or origin.operation not in ("eq", "ne"):
        return None
    match origin.node:
        case ast.Compare(left=left, comparators=[right]):
            return origin.node, left, right
        case ast.Call():
            operands = origin.call.operands if origin.call is not None else ()
            return (origin.node, operands[0], operands[1]) if len(operands) == 2 else None
        case _:
            return None


def _one_made_of_the_other(ctx: Context, first: Sized, second: Sized) -> bool:
    """Say whether both sides name the same thing: then all pairs are what is asked for."""
    names = [{n.id for n in walk(side.expression) if isinstance(n, ast.Name)} for side in (first, second)]
    return not names[0].isdisjoint(names[1])
