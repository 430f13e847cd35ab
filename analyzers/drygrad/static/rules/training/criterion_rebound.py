"""Rule DG774: a criterion or model that a loop replaces by its own result."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Object
from drygrad.static.loops import repeats
from drygrad.static.syntax import body_nodes, class_around

_CALLS_A_TENSOR = "the next call of the method calls a tensor"


class CriterionRebound(Rule):
    """
    ## What it does
    Finds `loss = loss(output, target)` in a loop, and `self.loss = self.loss(output, target)` in a method: the name of
    the loss function is rebound to its result.

    ## Why is this bad?
    The second iteration calls a tensor: `TypeError: 'Tensor' object is not callable`. If `self.loss` is a module, torch
    already refuses to replace it with a tensor.

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
    No fix: only you know which uses mean the loss function and which its result.
    """

    code, name, since = "DG774", "criterion-rebound", "0.1"
    severity = "error"
    VALID = [
        Valid("loss_fn = nn.MSELoss()\nfor x in loader:\n    loss = loss_fn(model(x), x)\n    loss.backward()"),
        Valid("for x in loader:\n    loss = nn.MSELoss()\n    loss = loss(model(x), x)\n    loss.backward()"),
        Valid("loss = nn.MSELoss()\nloss = loss(model(x), x)\nloss.backward()"),
        Valid("for part in parts:\n    step = step(part)"),
        Valid(
            "class Fit:\n    def __init__(self):\n        self.loss_fn = nn.MSELoss()\n\n    def step(self, x, y):\n"
            "        self.loss = self.loss_fn(x, y)"
        ),
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
        Invalid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.head = nn.Linear(3, 2)
                    self.loss = nn.MSELoss()

                def step(self, x, y):
                    self.loss = self.loss(self.head(x), y)
                    return self.loss
            """,
            at=(8, 8, 8, 46),
        ),
    ]

    def visit_assign(self, node: ast.Assign, ctx: Context) -> Iterator[Finding]:
        yield from self._attribute(node, ctx)
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

    def _attribute(self, node: ast.Assign, ctx: Context) -> Iterator[Finding]:
        """Find ``self.loss = self.loss(output, target)`` in a method that may be called again."""
        match node:
            case ast.Assign(
                targets=[ast.Attribute(value=ast.Name(id=owner), attr=name)],
                value=ast.Call(func=ast.Attribute(value=ast.Name(id=other), attr=called)),
            ) if (owner, name) == (other, called):
                pass
            case _:
                return
        method, cls = ctx.function(node), class_around(node, ctx)
        if method is not None and method.name != "__init__" and cls is not None and _begins_as_layer(ctx, cls, name):
            outcome = (
                "assigning a tensor to a submodule raises TypeError" if ctx.is_module_class(cls) else _CALLS_A_TENSOR
            )
            yield ctx.finding(self, node, f"{owner}.{name} is rebound to its own result; {outcome}")


def _begins_as_layer(ctx: Context, cls: ast.ClassDef, attribute: str) -> bool:
    """Say whether a constructor gives its object one of torch's modules under a name, which returns a tensor."""
    init = next((m for m in cls.body if isinstance(m, ast.FunctionDef) and m.name == "__init__"), None)
    given = [n.value for n in body_nodes(init) if _assigns(n, attribute)] if init is not None else []
    values = [ctx.value(node) for node in given]
    return bool(values) and all(isinstance(v, Object) and v.is_module and v.type.startswith("torch.nn") for v in values)


def _assigns(node: ast.AST, attribute: str) -> TypeGuard[ast.Assign]:
    match node:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)]):
            return name == attribute
        case _:
            return False


def _is_tensor(ctx: Context, result: ast.expr, name: str, inside: list[ast.AST]) -> bool:
    """Say whether what the call returns is a tensor: as is known, or for a backward that runs from it."""
    value = ctx.value(result)
    if ctx.tensor(result) is not None:
        return True
    return not isinstance(value, Object) and any(
        isinstance(n, ast.Attribute) and n.attr == "backward" and isinstance(n.value, ast.Name) and n.value.id == name
        for n in inside
    )
