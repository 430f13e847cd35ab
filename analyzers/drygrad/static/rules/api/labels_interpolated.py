"""Rule DG814: class numbers that are resized by taking means."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import with_keyword
from drygrad.static.facts.values import Constant
from drygrad.static.syntax import argument, last_assignment

_SMOOTH = frozenset({"bilinear", "bicubic", "linear", "trilinear", "area"})
_LAYOUT = frozenset({"squeeze", "view", "reshape", "flatten", "contiguous"})
_LABELS = re.compile(r"(^|_)(masks?|labels?|targets?|seg|segmentation|gt|classes)(_|$|\d)", re.I)


class LabelsInterpolated(Rule):
    """
    ## What it does
    Finds `F.interpolate(..., mode="bilinear")`, or another smooth mode, on a mask or labels, if `long()` converts the
    result to integers.

    ## Why is this bad?
    The mean of class 1 and class 5 is class 3: the borders of all objects get unrelated classes. Class indices must be
    picked, not averaged: `mode="nearest"`.

    ## Example
    ```python
    mask = F.interpolate(mask.float(), size=(64, 64), mode="bilinear").long()
    ```
    Use instead:
    ```python
    mask = F.interpolate(mask.float(), size=(64, 64), mode="nearest").long()
    ```

    ## Fix safety
    Unsafe: it changes the labels.
    """

    code, name, since = "DG814", "labels-interpolated", "0.1"
    severity = "warning"
    VALID = [
        Valid("def f(mask):\n    return F.interpolate(mask.float(), size=8, mode='nearest').long()"),
        Valid("def f(x):\n    return F.interpolate(x, size=8, mode='bilinear')"),
        Valid("def f(flow):\n    return F.interpolate(flow, size=8, mode='bilinear').long()"),
        Valid("def f(mask):\n    return (F.interpolate(mask, size=8, mode='bilinear') > 0.5).long()"),
    ]
    INVALID = [
        Invalid(
            "def f(mask):\n    return F.interpolate(mask[None].float(), size=8, mode='bilinear').squeeze(0).long()",
            'def f(mask):\n    return F.interpolate(mask[None].float(), size=8, mode="nearest").squeeze(0).long()',
            at=(2, 11, 2, 69),
        ),
        Invalid(
            "def f(labels):\n    labels = F.interpolate(labels, size=8, mode='bilinear', align_corners=False)\n"
            "    return labels.long()",
            'def f(labels):\n    labels = F.interpolate(labels, size=8, mode="nearest")\n    return labels.long()',
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.Call(func=ast.Attribute(value=given, attr="long" | "int"), args=[]):
                pass
            case _:
                return
        made = _resized(given, ctx)
        mode = argument(made, "mode") if made is not None else None
        value = ctx.value(mode)
        labels = argument(made, "input", 0) if made is not None else None
        if made is None or labels is None or not isinstance(value, Constant) or value.value not in _SMOOTH:
            return
        if _LABELS.search(_base(labels)):
            message = "interpolating class labels produces numbers of other classes"
            edits = _nearest(made, ctx)
            related = [("converted to integers here", node)] if made is not given else []
            yield ctx.finding(self, made, message, related=related, fixes=[ctx.fix('Use `mode="nearest"`', *edits)])


def _resized(node: ast.expr, ctx: Context) -> ast.Call | None:
    """Return the call of interpolate whose result an expression is."""
    for _ in range(4):
        match node:
            case ast.Name(id=name):
                given = last_assignment(ctx, name, ctx.statement(node))
                if given is None:
                    return None
                node = given
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _LAYOUT:
                node = inner
            case ast.Subscript(value=inner):
                node = inner
            case ast.Call():
                call = ctx.call(node)
                return node if call is not None and call.operation == "interpolate" else None
            case _:
                return None
    return None


def _base(node: ast.expr) -> str:
    """Return the name at the root of an expression."""
    while True:
        match node:
            case ast.Call(func=ast.Attribute(value=inner)) | ast.Subscript(value=inner):
                node = inner
            case ast.Attribute(attr=name) | ast.Name(id=name):
                return name
            case _:
                return ""


def _nearest(made: ast.Call, ctx: Context) -> list[Edit | None]:
    edits = [with_keyword(ctx, made, "mode", '"nearest"')]
    if argument(made, "align_corners") is not None:
        edits.append(ctx.remove_keyword(made, "align_corners"))
    return edits
