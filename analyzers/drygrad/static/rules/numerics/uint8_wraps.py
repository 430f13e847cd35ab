"""Rule DG413: integers of eight bits that wrap around."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import as_operand
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Tensor
from drygrad.static.tree import walk

_REDUCES = frozenset({"min", "amin"})


class Uint8Wraps(Rule):
    """
    ## What it does
    Finds differences `a - b` of two uint8 tensors, such as images read from files, also if an earlier call stored one
    of them on `self`. A dry run reports 8-bit results that have wrapped around.

    ## Why is this bad?
    uint8 arithmetic is modulo 256: `10 - 12` is 254, `200 + 100` is 44. Nothing raises, and neither `abs()` nor a later
    conversion recovers the value: a small change looks like a large one.

    ## Example
    ```python
    frames = torch.randint(0, 256, (2, 64, 64), dtype=torch.uint8)
    change = (frames[1] - frames[0]).float().abs()
    ```
    Use instead:
    ```python
    frames = torch.randint(0, 256, (2, 64, 64), dtype=torch.uint8)
    change = (frames[1].float() - frames[0].float()).abs()
    ```

    ## Fix safety
    Unsafe: the dtype of the result changes.
    """

    code, name, since = "DG413", "uint8-wraps", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            a = torch.randint(0, 256, (8, 8), dtype=torch.uint8)
            b = torch.randint(0, 256, (8, 8), dtype=torch.uint8)
            change = (a.float() - b.float()).abs()
            negative, shifted, wide = 255 - a, a - a.min(), a.short() - b
            """
        ),
        Valid(
            """
            class Detector:
                def __init__(self):
                    self.previous = None

                def update(self, frame: torch.Tensor):
                    grey = frame.mean(0).to(torch.uint8)
                    change = (grey - self.previous).abs() if self.previous is not None else None
                    self.previous = grey.float()
                    return change
            """
        ),
        Valid("a = torch.zeros(3, dtype=torch.int16)\nb = torch.ones(3, dtype=torch.int16)\nc = (a - b).abs()"),
    ]
    INVALID = [
        Invalid(
            """
            a = torch.randint(0, 256, (8, 8), dtype=torch.uint8)
            b = torch.randint(0, 256, (8, 8), dtype=torch.uint8)
            change = (a - b).abs()
            """,
            """
            a = torch.randint(0, 256, (8, 8), dtype=torch.uint8)
            b = torch.randint(0, 256, (8, 8), dtype=torch.uint8)
            change = (a.float() - b).abs()
            """,
            at=(3, 10, 3, 15),
        ),
        Invalid(
            """
            class Detector:
                def __init__(self):
                    self.previous = None

                def difference(self, current):
                    return (current - self.previous).abs()

                def update(self, frame: torch.Tensor):
                    grey = frame.mean(0).to(torch.uint8)
                    change = self.difference(grey) if self.previous is not None else None
                    self.previous = grey
                    return change
            """,
            """
            class Detector:
                def __init__(self):
                    self.previous = None

                def difference(self, current):
                    return (current.float() - self.previous).abs()

                def update(self, frame: torch.Tensor):
                    grey = frame.mean(0).to(torch.uint8)
                    change = self.difference(grey) if self.previous is not None else None
                    self.previous = grey
                    return change
            """,
        ),
        Invalid(
            """
            def motion(frames: torch.Tensor):
                frames = frames.byte()
                return (frames[1:] - frames[:-1]).float().mean()
            """,
            """
            def motion(frames: torch.Tensor):
                frames = frames.byte()
                return (frames[1:].float() - frames[:-1]).float().mean()
            """,
        ),
    ]

    def visit_difference(self, node: ast.BinOp, ctx: Context) -> Iterator[Finding]:
        if not isinstance(node.op, ast.Sub):
            return
        second = ctx.tensor(node.right)
        sides = (node.left, node.right)
        if not any(_is_unsigned(ctx.tensor(side)) for side in sides) or not all(_holds(side, ctx) for side in sides):
            return
        if second is not None and second.made_by(*_REDUCES):
            return
        message = "uint8 subtraction wraps around where the second operand is larger (10 - 12 is 254)"
        yield ctx.finding(self, node, message, fixes=[_widened(node, ctx)])


def _holds(node: ast.expr, ctx: Context) -> bool:
    """Say whether an expression is a uint8 tensor, also one that an earlier call of a method has kept on ``self``."""
    tensor = ctx.tensor(node)
    if tensor is not None or not isinstance(node, ast.Attribute):
        return _is_unsigned(tensor)
    owner = next((above for above in ctx.ancestors(node) if isinstance(above, ast.ClassDef)), None)
    name = dotted_text(node) or ""
    if owner is None or not name.startswith("self."):
        return False
    stored = [value for value in _stored(name, owner) if not (isinstance(value, ast.Constant) and value.value is None)]
    return bool(stored) and all(value is not None and _is_unsigned(ctx.tensor(value)) for value in stored)


def _stored(name: str, owner: ast.ClassDef) -> Iterator[ast.expr | None]:
    """Yield what the methods of a class assign to an attribute; None where that is not one expression."""
    for node in walk(owner):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and dotted_text(node) == name:
            yield next((value for target, value in _assignments(owner) if target is node), None)


def _assignments(owner: ast.ClassDef) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    for node in walk(owner):
        if isinstance(node, ast.Assign):
            yield from ((target, node.value) for target in node.targets)
        elif isinstance(node, ast.AnnAssign):
            yield node.target, node.value


def _is_unsigned(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.dtype == "uint8"


def _widened(node: ast.BinOp, ctx: Context) -> Fix | None:
    return ctx.fix("Convert to float first", ctx.replace(node.left, f"{as_operand(ctx, node.left)}.float()"))
