"""Rule DG763: ReduceLROnPlateau that waits for a metric to fall which should rise."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import with_keyword
from drygrad.static.facts.values import Constant, Object
from drygrad.static.syntax import argument
from drygrad.static.tree import walk

_RISES = re.compile(r"(^|_)(acc|accuracy|f1|auc|auroc|iou|miou|dice|recall|precision|psnr|ssim|bleu|r2)(_|$|\d)", re.I)
_FALLS = re.compile(r"(^|_)(loss|losses|err|error|mse|mae|rmse|perplexity|ppl|nll)(_|$|\d)", re.I)


class PlateauMode(Rule):
    """
    ## What it does
    Finds `ReduceLROnPlateau` in its default mode `min` whose `step` gets an accuracy, an F1 score and the like, and in
    mode `max` with a loss.

    ## Why is this bad?
    In mode `min` a rising accuracy counts as getting worse: the learning rate is reduced again and again while the
    model improves, until it stops learning.

    ## Example
    ```python
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=3)
    scheduler.step(val_accuracy)
    ```
    Use instead:
    ```python
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=3, mode="max")
    scheduler.step(val_accuracy)
    ```

    ## Fix safety
    Unsafe: it changes the learning rate.
    """

    code, name, since = "DG763", "plateau-mode", "0.1"
    severity = "warning"
    VALID = [
        Valid("s = torch.optim.lr_scheduler.ReduceLROnPlateau(o, 'max')\ns.step(val_acc)"),
        Valid("s = torch.optim.lr_scheduler.ReduceLROnPlateau(o)\ns.step(val_loss)\ns.step(1 - acc)\ns.step(-f1)"),
        Valid("s = torch.optim.lr_scheduler.ReduceLROnPlateau(o, mode=mode)\ns.step(val_acc)"),
    ]
    INVALID = [
        Invalid(
            "s = torch.optim.lr_scheduler.ReduceLROnPlateau(o, factor=0.5)\ns.step(val_acc)",
            's = torch.optim.lr_scheduler.ReduceLROnPlateau(o, factor=0.5, mode="max")\ns.step(val_acc)',
            at=(2, 7, 2, 14),
        ),
        Invalid(
            "s = torch.optim.lr_scheduler.ReduceLROnPlateau(o, mode='max')\ns.step(metrics['val_loss'])",
            "s = torch.optim.lr_scheduler.ReduceLROnPlateau(o, mode=\"min\")\ns.step(metrics['val_loss'])",
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="step")):
                value, metric = ctx.value(owner), argument(node, "metrics", 0)
            case _:
                return
        if metric is None or not isinstance(value, Object) or not value.type.endswith(".ReduceLROnPlateau"):
            return
        mode = value.arguments.get("mode", 1)
        known = "min" if mode is None else mode.value if isinstance(mode, Constant) else None
        better = "max" if known == "min" else "min"
        if known not in ("min", "max") or not _is_called(metric, known):
            return
        direction = "rises" if better == "max" else "falls"
        message = f"in mode {known} the scheduler treats a metric that {direction} as getting worse"
        positional = len(value.arguments.positional) > 1
        edit = None if positional else with_keyword(ctx, value.node, "mode", f'"{better}"')
        fix = ctx.fix(f'Use `mode="{better}"`', edit)
        related = [("the scheduler is created here", value.node)] if value.node is not None else []
        yield ctx.finding(self, metric, message, related=related, fixes=[fix])


def _is_called(metric: ast.expr, mode: str) -> bool:
    """Say whether a metric is called like one that goes the other way."""
    while isinstance(metric, ast.Call) and isinstance(metric.func, ast.Attribute) and not metric.args:
        metric = metric.func.value
    if not isinstance(metric, (ast.Name, ast.Attribute, ast.Subscript)):
        return False
    names: list[str] = []
    for node in walk(metric):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
                names.append(name)
            case _:
                pass
    wrong, right = (_RISES, _FALLS) if mode == "min" else (_FALLS, _RISES)
    return any(wrong.search(name) for name in names) and not any(right.search(name) for name in names)
