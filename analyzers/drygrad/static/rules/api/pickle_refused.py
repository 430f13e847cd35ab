"""Rule DG805: a saved object that torch.load refuses by default."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import with_keyword
from drygrad.static.facts.values import Object
from drygrad.static.syntax import argument


class PickleRefused(Rule):
    """
    ## What it does
    Finds `torch.load` without `weights_only=False` in a file that saves a whole model to the same path. A dry run
    reports every file that `torch.load` rejects, such as one with a NumPy number among the values.

    ## Why is this bad?
    Since torch 2.6 `weights_only=True` is the default: it accepts tensors, containers and plain values, and raises
    "Weights only load failed" for anything else. You only notice when the file is read, often long after the training
    that wrote it. A `state_dict` and a plain number (`float(score)`) need no exception.

    ## Example
    ```python
    model = nn.Linear(8, 4)
    torch.save(model, "model.pt")
    model = torch.load("model.pt")
    ```
    Use instead:
    ```python
    model = nn.Linear(8, 4)
    torch.save(model.state_dict(), "model.pt")
    model.load_state_dict(torch.load("model.pt"))
    ```

    ## Fix safety
    Unsafe: with `weights_only=False` a file from elsewhere can run code when it is loaded.
    """

    code, name, since = "DG805", "pickle-refused", "0.1"
    severity = "error"
    torch = ("2.6", None)
    VALID = [
        Valid(
            """
            model = nn.Linear(2, 2)
            torch.save(model.state_dict(), "model.pt")
            model.load_state_dict(torch.load("model.pt"))
            torch.save(model, "whole.pt")
            whole, other = torch.load("whole.pt", weights_only=False), torch.load("other.pt")
            """
        ),
        Valid(
            """
            model = nn.Linear(2, 2)
            torch.save(model, "model.pt")
            with torch.serialization.safe_globals([nn.Linear]):
                torch.load("model.pt")
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            model = nn.Linear(2, 2)
            torch.save(model, "model.pt")
            again = torch.load("model.pt")
            """,
            """
            model = nn.Linear(2, 2)
            torch.save(model, "model.pt")
            again = torch.load("model.pt", weights_only=False)
            """,
            at=(3, 8, 3, 30),
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        if ctx.name(node.func) != "torch.load" or any(k.arg in ("weights_only", None) for k in node.keywords):
            return
        file = argument(node, "f", 0)
        saved = _saved_model(ast.unparse(file), ctx) if file is not None else None
        if saved is None or ctx.mentions("safe_globals"):
            return
        message = "torch.load refuses pickled models since 2.6, where weights_only=True became the default"
        fix = ctx.fix(
            "Pass `weights_only=False` if you trust the file", with_keyword(ctx, node, "weights_only", "False")
        )
        yield ctx.finding(self, node, message, related=[("saved here", saved)], fixes=[fix])


def _saved_model(file: str, ctx: Context) -> ast.Call | None:
    """Return the call that saves a whole module under the same expression."""
    for node in ctx.nodes(ast.Call):
        if ctx.name(node.func) == "torch.save" and len(node.args) > 1 and ast.unparse(node.args[1]) == file:
            value = ctx.value(node.args[0])
            return node if isinstance(value, Object) and value.is_module else None
    return None
