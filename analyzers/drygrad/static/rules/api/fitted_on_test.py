"""Rule DG811: a scaler that is fitted again to the test data."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.rules.loss.activations import rename
from drygrad.static.syntax import body_nodes, scope_of
from drygrad.static.tree import walk

_EVALUATION = re.compile(r"(^|_)(val|valid|validation|test|dev)(_|$|x|y)|^[xy]_?(val|valid|test|dev)", re.I)


class FittedOnTest(Rule):
    """
    ## What it does
    Finds `scaler.fit_transform(X_test)` (or `X_val`) on a scaler, encoder or other transformer that the same function
    has fitted to the training data.

    ## Why is this bad?
    The test data is scaled with its own mean and deviation, or gets different class indices, so the same input means
    something else to the model than in training. The metric is wrong, and a single sample at inference cannot be scaled
    this way at all.

    ## Example
    ```python
    X_train = scaler.fit_transform(X_train)
    X_test = scaler.fit_transform(X_test)
    ```
    Use instead:
    ```python
    X_train = scaler.fit_transform(X_train)
    X_test = scaler.transform(X_test)
    ```

    ## Fix safety
    Unsafe: it changes the data.
    """

    code, name, since = "DG811", "fitted-on-test", "0.1"
    severity = "warning"
    VALID = [
        Valid("def f(scaler, X_train, X_test):\n    return scaler.fit_transform(X_train), scaler.transform(X_test)"),
        Valid("def f(a, b, X_train, X_test):\n    return a.fit_transform(X_train), b.fit_transform(X_test)"),
        Valid("def f(scaler, X, y):\n    return scaler.fit_transform(X), scaler.fit_transform(y)"),
    ]
    INVALID = [
        Invalid(
            "def f(scaler, X_train, X_test):\n    a = scaler.fit_transform(X_train)\n"
            "    b = torch.tensor(scaler.fit_transform(X_test))\n    return a, b",
            "def f(scaler, X_train, X_test):\n    a = scaler.fit_transform(X_train)\n"
            "    b = torch.tensor(scaler.transform(X_test))\n    return a, b",
            at=(3, 21, 3, 49),
        ),
        Invalid(
            "def f(encoder, train_df, val_df):\n    encoder.fit(train_df['kind'])\n"
            "    return encoder.fit_transform(val_df['kind'])",
            "def f(encoder, train_df, val_df):\n    encoder.fit(train_df['kind'])\n"
            "    return encoder.transform(val_df['kind'])",
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="fit_transform"), args=[given, *_]):
                name = dotted_text(owner)
            case _:
                return
        if name is None or not _is_of_evaluation(given):
            return
        for before in body_nodes(scope_of(node, ctx)):
            match before:
                case ast.Call(func=ast.Attribute(value=other, attr="fit_transform" | "fit"), args=[first, *_]):
                    if dotted_text(other) == name and before.lineno < node.lineno and not _is_of_evaluation(first):
                        fix = ctx.fix("Use `transform` instead", rename(ctx, node, "transform"))
                        related = [("fitted to the training data here", before)]
                        message = f"{name} is refitted to data that it should only be applied to"
                        yield ctx.finding(self, node, message, related=related, fixes=[fix])
                        return
                case _:
                    pass


def _is_of_evaluation(node: ast.expr) -> bool:
    names = (
        n.id if isinstance(n, ast.Name) else n.attr for n in walk(node) if isinstance(n, (ast.Name, ast.Attribute))
    )
    return any(_EVALUATION.search(name) for name in names)
