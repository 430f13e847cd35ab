"""Rule DG413: integers of eight bits that wrap around."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import as_operand
from drygrad.static.facts.values import Tensor

_REDUCES = frozenset({"min", "amin"})


class Uint8Wraps(Rule):
    """
    ## What it does
    Finds differences `a - b` of two uint8 tensors, such as images as they are read from files. A dry run reports
    results of eight bits that have wrapped around.

    ## Why is this bad?
    uint8 counts from 0 to 255 and then from the beginning: `10 - 12` is 254, `200 + 100` is 44. Nothing raises, and
    `abs()` or a conversion afterwards cannot bring the value back: a small change looks like a large one.

    ## Example
    ```python
    change = (frame - previous).abs()  # both uint8
    ```
    Use instead:
    ```python
    change = (frame.float() - previous.float()).abs()
    ```

    ## Fix safety
    Unsafe: the result is of another dtype.
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
        first, second = ctx.tensor(node.left), ctx.tensor(node.right)
        if not (_is_unsigned(first) and _is_unsigned(second)) or (second is not None and second.made_by(*_REDUCES)):
            return
        message = "both are uint8: where the second is larger the difference wraps around, 10 - 12 is 254"
        yield ctx.finding(self, node, message, fixes=[_widened(node, ctx)])


def _is_unsigned(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.dtype == "uint8"


def _widened(node: ast.BinOp, ctx: Context) -> Fix | None:
    return ctx.fix("Subtract floats", ctx.replace(node.left, f"{as_operand(ctx, node.left)}.float()"))
