"""Rule DG815: the test set is shuffled and the training set is not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import with_keyword
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Constant
from drygrad.static.loaders import loader_made_by
from drygrad.static.syntax import body_nodes, scope_of

_EVALUATION = re.compile(r"(^|_)(val|valid|validation|test|eval|dev)(_|$|loader)", re.I)
_TRAINING = re.compile(r"(^|_)train(ing)?(_|$|loader)", re.I)


class ShuffleExchanged(Rule):
    """
    ## What it does
    Finds a training loader with `shuffle=False` next to a validation or test loader with `shuffle=True` in the same
    function.

    ## Why is this bad?
    The two are probably swapped. In file order, batches often contain a single class, and the model forgets the others.
    Predictions on a shuffled test set no longer match its files.

    ## Example
    ```python
    train_loader = DataLoader(train_set, batch_size=8, shuffle=False)
    test_loader = DataLoader(test_set, batch_size=8, shuffle=True)
    ```
    Use instead:
    ```python
    train_loader = DataLoader(train_set, batch_size=8, shuffle=True)
    test_loader = DataLoader(test_set, batch_size=8, shuffle=False)
    ```

    ## Fix safety
    Unsafe: it changes the order of the samples.
    """

    code, name, since = "DG815", "shuffle-exchanged", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            from torch.utils.data import DataLoader
            train_loader = make_private(DataLoader(a, batch_size=8))
            train_data_loader = DataLoader(a, batch_size=8)
            test_loader = DataLoader(b, batch_size=8, shuffle=True)
            """
        ),
        Valid(
            """
            from torch.utils.data import DataLoader
            train_loader = DataLoader(a, batch_size=8, shuffle=True)
            test_loader = DataLoader(b, batch_size=8)
            """
        ),
        Valid(
            """
            from torch.utils.data import DataLoader
            train_loader = DataLoader(a, batch_size=8, sampler=sampler)
            test_loader = DataLoader(b, batch_size=8, shuffle=True)
            """
        ),
        Valid(
            """
            from torch.utils.data import DataLoader
            train_loader = DataLoader(a, shuffle=False)
            test_loader = DataLoader(b, shuffle=False)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch
            from torch.utils.data import DataLoader
            train_loader = DataLoader(a, batch_size=8, shuffle=False)
            test_loader = DataLoader(b, batch_size=8, shuffle=True)
            """,
            """
            import torch
            from torch.utils.data import DataLoader
            train_loader = DataLoader(a, batch_size=8, shuffle=True)
            test_loader = DataLoader(b, batch_size=8, shuffle=False)
            """,
            at=(3, 15, 3, 57),
        ),
    ]

    def visit_assign(self, node: ast.Assign, ctx: Context) -> Iterator[Finding]:
        if not isinstance(node.value, ast.Call) or not _named(node, _TRAINING, _EVALUATION):
            return
        if _shuffles(node.value, ctx) is not False:
            return
        for other in body_nodes(scope_of(node, ctx)):
            if not isinstance(other, ast.Assign) or not isinstance(other.value, ast.Call):
                continue
            if _named(other, _EVALUATION, _TRAINING) and _shuffles(other.value, ctx):
                message = "the training set is not shuffled, but the evaluation set is"
                edits: list[Edit | None] = [
                    with_keyword(ctx, node.value, "shuffle", "True"),
                    with_keyword(ctx, other.value, "shuffle", "False"),
                ]
                fix = ctx.fix("Swap the two", *edits)
                yield ctx.finding(self, node.value, message, related=[("shuffled here", other.value)], fixes=[fix])
                return


def _named(node: ast.Assign, wanted: re.Pattern[str], other: re.Pattern[str]) -> bool:
    name = (dotted_text(node.targets[0]) or "").rpartition(".")[2]
    return wanted.search(name) is not None and other.search(name) is None


def _shuffles(call: ast.Call, ctx: Context) -> bool | None:
    """Say whether a loader is told to shuffle or not to; None where it is told nothing, or a sampler decides."""
    loader = loader_made_by(call, ctx)
    if loader is None or not loader.arguments.complete:
        return None
    if loader.arguments.get("sampler", 3) is not None or loader.arguments.get("batch_sampler", 4) is not None:
        return None
    shuffle = loader.arguments.get("shuffle", 2)
    return shuffle.value if isinstance(shuffle, Constant) and isinstance(shuffle.value, bool) else None
