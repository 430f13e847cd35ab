"""Rule DG730: a count of samples that is divided by the number of batches."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Constant, Object
from drygrad.static.loops import iterates_over_loader
from drygrad.static.syntax import body_nodes, scope_of
from drygrad.static.tree import walk

_COUNTS = frozenset({"sum", "count_nonzero"})
_ONE = (None, Constant(1))


class CountOverBatches(Rule):
    """
    ## What it does
    Finds a sum of matches over the batches of a loader, `correct += (prediction == y).sum()`, divided by `len(loader)`.

    ## Why is this bad?
    `len(loader)` is the number of batches. The quotient is the average number of matches per batch, not a fraction: an
    "accuracy" of 27.3 that depends on the batch size.

    ## Example
    ```python
    for x, y in loader:
        correct += (model(x).argmax(dim=1) == y).sum().item()
    accuracy = correct / len(loader)
    ```
    Use instead:
    ```python
    for x, y in loader:
        correct += (model(x).argmax(dim=1) == y).sum().item()
    accuracy = correct / len(loader.dataset)
    ```

    ## Fix safety
    Unsafe: it changes the number.
    """

    code, name, since = "DG730", "count-over-batches", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            def evaluate(model, loader):
                correct, share = 0, 0.0
                for x, y in loader:
                    correct += (model(x).argmax(1) == y).sum().item()
                    share += (model(x).argmax(1) == y).float().mean().item()
                return correct / len(loader.dataset), share / len(loader)
            """
        ),
        Valid(
            """
            def evaluate(model, samples):
                correct = 0
                for x, y in samples:
                    correct += (model(x).argmax() == y).sum().item()
                return correct / len(samples)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            def evaluate(model, loader):
                correct = 0
                for x, y in loader:
                    correct += (model(x).argmax(1) == y).sum().item()
                return correct / len(loader)
            """,
            """
            def evaluate(model, loader):
                correct = 0
                for x, y in loader:
                    correct += (model(x).argmax(1) == y).sum().item()
                return correct / len(loader.dataset)
            """,
            at=(5, 11, 5, 32),
        ),
    ]

    def visit_division(self, node: ast.BinOp, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.BinOp(left=counted, op=ast.Div(), right=ast.Call(func=ast.Name(id="len"), args=[loader])):
                name, source = dotted_text(_number(counted)), dotted_text(loader)
            case _:
                return
        if name is None or source is None:
            return
        for loop in body_nodes(scope_of(node, ctx)):
            if isinstance(loop, ast.For) and _goes_over(loop.iter, source) and iterates_over_loader(loop, ctx):
                added = next((s for s in body_nodes(loop) if _adds_matches(s, name)), None)
                if isinstance(added, ast.stmt) and not _has_single_samples(loader, ctx):
                    message = f"{name} counts samples but is divided by len({source}), the number of batches"
                    fix = ctx.fix("Divide by the number of samples", ctx.insert_after(loader, ".dataset"))
                    yield ctx.finding(self, node, message, related=[("counted here", added)], fixes=[fix])
                    return


def _number(node: ast.expr) -> ast.expr:
    """Return what ``100 * correct`` and ``correct.item()`` are made of."""
    match node:
        case ast.BinOp(left=ast.Constant(), op=ast.Mult(), right=inner):
            return inner
        case ast.BinOp(left=inner, op=ast.Mult(), right=ast.Constant()):
            return inner
        case ast.Call(func=ast.Attribute(value=inner, attr="item" | "float"), args=[]):
            return inner
        case _:
            return node


def _goes_over(iterable: ast.expr, source: str) -> bool:
    return any(isinstance(part, (ast.Name, ast.Attribute)) and dotted_text(part) == source for part in walk(iterable))


def _adds_matches(node: ast.AST, name: str) -> bool:
    """Say whether a statement adds the number of equal elements to a name."""
    match node:
        case ast.AugAssign(target=target, op=ast.Add(), value=value) if dotted_text(target) == name:
            pass
        case _:
            return False
    value = _number(value)
    match value:
        case ast.Call(func=ast.Attribute(value=inner, attr=attr)) if attr in _COUNTS:
            return _compares(inner)
        case ast.Call(args=[inner], func=ast.Attribute(value=ast.Name(id="torch"), attr=attr)) if attr in _COUNTS:
            return _compares(inner)
        case _:
            return False


def _compares(node: ast.expr) -> bool:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        node = node.func.value
    match node:
        case ast.Compare(ops=[ast.Eq()]):
            return True
        case ast.Call(func=ast.Attribute(attr="eq")):
            return True
        case _:
            return False


def _has_single_samples(loader: ast.expr, ctx: Context) -> bool:
    """Say whether a loader is known to give one sample at a time."""
    value = ctx.value(loader)
    return isinstance(value, Object) and value.arguments.complete and value.arguments.get("batch_size", 1) in _ONE
