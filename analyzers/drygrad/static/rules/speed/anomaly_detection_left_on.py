"""Rule DG616: autograd's anomaly detection in a training that is no search for a fault."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Constant
from drygrad.static.loops import is_guarded, trains
from drygrad.static.syntax import argument

_SWITCHES = frozenset({"torch.autograd.set_detect_anomaly", "torch.autograd.anomaly_mode.set_detect_anomaly"})
_CONTEXTS = frozenset({"torch.autograd.detect_anomaly", "torch.autograd.anomaly_mode.detect_anomaly"})


class AnomalyDetectionLeftOn(Rule):
    """
    ## What it does
    Finds an unconditional `torch.autograd.set_detect_anomaly(True)`, or `detect_anomaly()` around a loop, in a file
    that trains.

    ## Why is this bad?
    Anomaly detection records a stack trace for every forward operation and checks every gradient for NaN, which
    synchronizes with the GPU. Ten linear layers took seven times as long to train with it (torch 2.13, CPU). It is
    meant for tracking down a NaN, and easily forgotten afterwards.

    ## Example
    ```python
    torch.autograd.set_detect_anomaly(True)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
    ```
    Use instead:
    ```python
    torch.autograd.set_detect_anomaly(args.debug)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
    ```

    ## Fix safety
    Unsafe: NaN in a gradient no longer raises an error.
    """

    code, name, since = "DG616", "anomaly-detection-left-on", "0.1"
    severity = "info"
    VALID = [
        Valid(
            """
            import os

            def train(model, loader, optimizer, debug=False):
                torch.autograd.set_detect_anomaly(debug)
                if os.environ.get("DEBUG"):
                    torch.autograd.set_detect_anomaly(True)
                torch.autograd.set_detect_anomaly(False)
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()

            def reproduce(model: nn.Linear, x):
                with torch.autograd.detect_anomaly():
                    model(x).sum().backward()
            """
        ),
        Valid("def test_gradient():\n    torch.autograd.set_detect_anomaly(True)"),
    ]
    INVALID = [
        Invalid(
            """
            torch.autograd.set_detect_anomaly(True)

            def train(model, loader, optimizer):
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
            """,
            """

            def train(model, loader, optimizer):
                for x, y in loader:
                    optimizer.zero_grad()
                    F.cross_entropy(model(x), y).backward()
                    optimizer.step()
            """,
            at=(1, 0, 1, 39),
        ),
        Invalid(
            """
            def train(model, loader, optimizer):
                with torch.autograd.detect_anomaly():
                    for x, y in loader:
                        optimizer.zero_grad()
                        F.cross_entropy(model(x), y).backward()
                        optimizer.step()
            """,
            at=(2, 9, 2, 40),
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        name = ctx.name(node.func)
        mode = argument(node, "mode", 0)
        if name in _SWITCHES and mode is not None and ctx.value(mode) == Constant(True):
            is_meant = is_guarded(node, ctx.tree, ctx) or not ctx.derived(_file_trains)
        elif isinstance(parent := ctx.parent(node), ast.withitem) and _full_name(node, ctx) in _CONTEXTS:
            block = ctx.parent(parent)
            loops = [n for n in getattr(block, "body", []) if isinstance(n, (ast.For, ast.While))]
            is_meant = is_guarded(node, ctx.tree, ctx) or not any(trains(loop) for loop in loops)
        else:
            return
        if not is_meant:
            message = "anomaly detection checks every gradient and makes training several times slower"
            yield ctx.finding(self, node, message, fixes=[_fix(node, ctx)])


def _full_name(node: ast.Call, ctx: Context) -> str | None:
    return ctx.name(node.func) or getattr(ctx.value(node), "type", None)


def _file_trains(ctx: Context) -> bool:
    return any(trains(loop) for kind in (ast.For, ast.While) for loop in ctx.nodes(kind))


def _fix(node: ast.Call, ctx: Context) -> Fix | None:
    statement = ctx.parent(node)
    if not isinstance(statement, ast.Expr):
        return None
    return ctx.fix("Delete the call", ctx.delete_statement(statement))
