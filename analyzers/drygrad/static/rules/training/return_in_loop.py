"""Rule DG737: a return at the end of a loop's body, behind what the loop was to add up."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.syntax import body_nodes, own_nodes


class ReturnInLoop(Rule):
    """
    ## What it does
    Finds `return total / n` at the end of a `for` loop's body that adds to `total`.

    ## Why is this bad?
    The function returns in the first iteration: only one batch is evaluated, or one term summed. The `return` is
    indented too far.

    ## Example
    ```python
    @torch.no_grad()
    def evaluate(model, loader):
        correct = 0
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum().item()
            return correct
    ```
    Use instead:
    ```python
    @torch.no_grad()
    def evaluate(model, loader):
        correct = 0
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum().item()
        return correct
    ```

    ## Fix safety
    Unsafe: it changes the return value.
    """

    code, name, since = "DG737", "return-in-loop", "0.1"
    severity = "warning"
    VALID = [
        Valid("def f(xs):\n    total = 0\n    for x in xs:\n        total += x\n    return total"),
        Valid(
            "def f(xs):\n    n = 0\n    for x in xs:\n        n += 1\n        if x:\n            return n\n    return n"
        ),
        Valid(
            "def f(xs):\n    n = 0\n    for x in xs:\n        n += 1\n        if not x:\n            continue\n"
            "        return n"
        ),
        Valid("def f(xs):\n    for x in xs:\n        x += 1\n        return x"),
        Valid("def f(xs):\n    n = 0\n    while True:\n        n += 1\n        return n"),
        Valid(
            "def f(xs):\n    n = 0\n    for x in xs:\n        n += 1\n        try:\n            return g(x, n)\n"
            "        except OSError:\n            pass"
        ),
    ]
    INVALID = [
        Invalid(
            """
            def evaluate(model, loader):
                total, seen = 0.0, 0
                with torch.no_grad():
                    for x, y in loader:
                        total += F.mse_loss(model(x), y).item()
                        seen += 1
                        return total / seen
            """,
            """
            def evaluate(model, loader):
                total, seen = 0.0, 0
                with torch.no_grad():
                    for x, y in loader:
                        total += F.mse_loss(model(x), y).item()
                        seen += 1
                    return total / seen
            """,
            at=(7, 12, 7, 31),
        ),
        Invalid(
            "def f(model, loader):\n    outputs = []\n    for x in loader:\n        outputs.append(model(x))\n"
            "        return torch.cat(outputs)",
            "def f(model, loader):\n    outputs = []\n    for x in loader:\n        outputs.append(model(x))\n"
            "    return torch.cat(outputs)",
        ),
    ]

    def visit_for(self, node: ast.For, ctx: Context) -> Iterator[Finding]:
        last = node.body[-1]
        if not isinstance(last, ast.Return) or last.value is None or len(node.body) < 2:
            return
        inside = [*body_nodes(node)]
        if any(isinstance(n, (ast.Continue, ast.Break, ast.Return)) and n is not last for n in inside):
            return
        own = {n.id for n in own_nodes(node.target) if isinstance(n, ast.Name)}
        plain = {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)} - _grown(node)
        returned = {n.id for n in own_nodes(last.value) if isinstance(n, ast.Name)}
        grown = (_grown(node) & returned) - own - plain
        if grown:
            name = min(grown)
            message = f"this returns in the first iteration; {name} only ever holds the first value"
            fix = ctx.fix("Return after the loop", _outdented(last, node, ctx))
            yield ctx.finding(self, last, message, related=[("the loop", node.target)], fixes=[fix])


def _grown(loop: ast.For) -> set[str]:
    """Return the names that a turn of a loop adds to."""
    found: set[str] = set()
    for node in body_nodes(loop):
        match node:
            case ast.AugAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append" | "extend")):
                found.add(name)
            case _:
                pass
    return found


def _outdented(node: ast.Return, loop: ast.For, ctx: Context) -> Edit | None:
    if node.lineno != node.end_lineno:
        return None
    mine, its = ctx.source.indentation(node.lineno), ctx.source.indentation(loop.lineno)
    span = ctx.source.span(node)
    start = span.start._replace(column=0)
    return Edit(span._replace(start=start), its + ctx.source_of(node)) if mine.startswith(its) else None
