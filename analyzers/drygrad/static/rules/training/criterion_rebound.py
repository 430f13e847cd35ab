"""Rule DG774: a criterion or model that a loop replaces by its own result."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Object
from drygrad.static.loops import repeats
from drygrad.static.syntax import body_nodes


class CriterionRebound(Rule):
    """
    ## What it does
    Finds `loss = loss(output, target)` in a loop: the name of the function is rebound to its result.

    ## Why is this bad?
    The second turn calls a tensor: `TypeError: 'Tensor' object is not callable`.

    ## Example
    ```python
    loss = nn.CrossEntropyLoss()
    for x, y in loader:
        loss = loss(model(x), y)
        loss.backward()
    ```
    Use instead:
    ```python
    criterion = nn.CrossEntropyLoss()
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
    ```

    ## Fix safety
    No fix: which of the uses mean the criterion, and which the loss, is for you to say.
    """

    code, name, since = "DG774", "criterion-rebound", "0.1"
    severity = "error"
    VALID = [
        Valid("loss_fn = nn.MSELoss()\nfor x in loader:\n    loss = loss_fn(model(x), x)\n    loss.backward()"),
        Valid("for x in loader:\n    loss = nn.MSELoss()\n    loss = loss(model(x), x)\n    loss.backward()"),
        Valid("loss = nn.MSELoss()\nloss = loss(model(x), x)\nloss.backward()"),
        Valid("for part in parts:\n    step = step(part)"),
        Valid("loss = nn.MSELoss()\nfor x in loader:\n    loss = loss(model(x), x)\n    loss.backward()\n    break"),
    ]
    INVALID = [
        Invalid(
            "loss = nn.MSELoss()\nfor x in loader:\n    loss = loss(model(x), x)\n    loss.backward()",
            at=(3, 4, 3, 28),
        ),
        Invalid(
            """
            def fit(net, o, measure, batches):
                for a, b in batches:
                    measure = measure(net(a), b)
                    measure.backward()
                    o.step()
                    o.zero_grad()
            """,
        ),
    ]

    def visit_assign(self, node: ast.Assign, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id=called))) if name == called:
                pass
            case _:
                return
        loop = ctx.parent(node)
        if not isinstance(loop, (ast.For, ast.AsyncFor, ast.While)) or node not in loop.body or not repeats(loop):
            return
        inside = [*body_nodes(loop)]
        stores = [n for n in inside if isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load)]
        leaves = any(isinstance(n, (ast.Break, ast.Return)) for n in inside)
        if len(stores) == 1 and not leaves and _is_tensor(ctx, node.value, name, inside):
            yield ctx.finding(
                self,
                node,
                f"{name} is rebound to its own result; the next iteration calls a tensor",
            )


def _is_tensor(ctx: Context, result: ast.expr, name: str, inside: list[ast.AST]) -> bool:
    """Say whether what the call returns is a tensor: as is known, or for a backward that runs from it."""
    value = ctx.value(result)
    if ctx.tensor(result) is not None:
        return True
    return not isinstance(value, Object) and any(
        isinstance(n, ast.Attribute) and n.attr == "backward" and isinstance(n.value, ast.Name) and n.value.id == name
        for n in inside
    )
