"""Rule DG733: a total of all epochs that is divided by what one epoch has."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context, Loop
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Constant
from drygrad.static.syntax import assigned_in, body_nodes, own_nodes, scope_of
from drygrad.static.tree import walk


class TotalOverEpochs(Rule):
    """
    ## What it does
    Finds totals, `correct += ...` or `running_loss += ...`, that are set to 0 before the loop over epochs but divided
    by `len(loader)` or `len(loader.dataset)` in each epoch.

    ## Why is this bad?
    The total keeps growing across epochs while the divisor is that of one epoch: in the second epoch the loss seems to
    double, and the accuracy may exceed 100%.

    ## Example
    ```python
    correct = 0
    for epoch in range(epochs):
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum().item()
        print(correct / len(loader.dataset))
    ```
    Use instead:
    ```python
    for epoch in range(epochs):
        correct = 0
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum().item()
        print(correct / len(loader.dataset))
    ```

    ## Fix safety
    Unsafe: it changes the reported number.
    """

    code, name, since = "DG733", "total-over-epochs", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            for epoch in range(5):
                total = 0
                for x, y in loader:
                    total += loss(x, y).item()
                print(total / len(loader))
            """
        ),
        Valid(
            """
            total = 0
            for epoch in range(5):
                for x, y in loader:
                    total += loss(x, y).item()
                print(total / len(loader))
                total = 0
            """
        ),
        Valid(
            """
            total = 0
            for epoch in range(5):
                for x, y in loader:
                    total += loss(x, y).item()
                print(total / (len(loader) * (epoch + 1)))
            print(total / len(loader))
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            def fit(model, loader):
                correct = 0
                for epoch in range(5):
                    for x, y in loader:
                        correct += (model(x).argmax(1) == y).sum().item()
                    accuracy = 100 * correct / len(loader.dataset)
            """,
            """
            def fit(model, loader):
                for epoch in range(5):
                    correct = 0
                    for x, y in loader:
                        correct += (model(x).argmax(1) == y).sum().item()
                    accuracy = 100 * correct / len(loader.dataset)
            """,
            at=(2, 4, 2, 15),
        ),
        Invalid(
            """
            def fit(model, loader, criterion):
                losses, total = [], 0.0
                for epoch in range(5):
                    for i, (x, y) in enumerate(loader):
                        total += criterion(model(x), y).item()
                    losses.append(total / len(loader))
            """,
        ),
    ]

    def visit_division(self, node: ast.BinOp, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.BinOp(
                left=counted, op=ast.Div(), right=ast.Call(func=ast.Name(id="len"), args=[ast.expr() as size])
            ):
                name, source = _name(counted), dotted_text(size)
            case _:
                return
        loops = ctx.loops(node)
        if name is None or source is None or not loops:
            return
        source = source.removesuffix(".dataset")
        outer = loops[0]
        inner = next((loop for loop in body_nodes(outer) if _adds(loop, name, source)), None)
        stores = [s for text, s in assigned_in(scope_of(node, ctx)) if text == name]
        resets = [s for s in stores if not isinstance(s, ast.AugAssign)]
        if inner is None or len(resets) != 1 or resets[0] in body_nodes(outer):
            return
        start = resets[0]
        if not isinstance(start, ast.Assign) or not _is_zero(start, name, ctx) or start.lineno > outer.lineno:
            return
        message = f"{name} is never reset but is divided by the count of one epoch"
        related = [("divided here", node)]
        yield ctx.finding(self, start, message, related=related, fixes=[_fix(ctx, start, outer)])


def _fix(ctx: Context, start: ast.Assign, outer: Loop) -> Fix | None:
    alone = len(start.targets) == 1 and isinstance(start.targets[0], ast.Name)
    removed = ctx.delete_statement(start) if alone else None
    text = ctx.source_of(start)
    inserted: Edit = ctx.insert_statement(outer.body[0], text)
    return ctx.fix("Reset it in each epoch", removed, inserted) if removed is not None else None


def _name(node: ast.expr) -> str | None:
    """Return the plain name of a total, ``100 *`` and ``.item()`` aside."""
    match node:
        case (
            ast.BinOp(left=ast.Constant(), op=ast.Mult(), right=inner)
            | ast.BinOp(left=inner, op=ast.Mult(), right=ast.Constant())
        ):
            return _name(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr="item" | "float" | "double"), args=[]):
            return _name(inner)
        case ast.Name(id=name):
            return name
        case _:
            return None


def _adds(loop: ast.AST, name: str, source: str) -> bool:
    """Say whether a loop over these batches adds to a name in each turn."""
    if not isinstance(loop, ast.For):
        return False
    if not any(isinstance(n, (ast.Name, ast.Attribute)) and dotted_text(n) == source for n in walk(loop.iter)):
        return False
    return any(
        isinstance(n, ast.AugAssign) and isinstance(n.op, ast.Add) and dotted_text(n.target) == name
        for n in own_nodes(*loop.body)
    )


def _is_zero(statement: ast.Assign, name: str, ctx: Context) -> bool:
    pairs: list[tuple[ast.expr, ast.expr]] = [(target, statement.value) for target in statement.targets]
    if isinstance(statement.value, ast.Tuple):
        for target in statement.targets:
            if isinstance(target, ast.Tuple):
                pairs += zip(target.elts, statement.value.elts, strict=False)
    value = next((ctx.value(given) for target, given in pairs if dotted_text(target) == name), None)
    return isinstance(value, Constant) and value.value == 0
