"""Rule DG317: tensors of different dtypes where torch takes one, or of a dtype that it does not take."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.expected_errors import is_expected
from drygrad.static.facts.forms import Asked, asked
from drygrad.static.facts.values import FLOATING, Tensor, TorchCall
from drygrad.static.rules.loss.dtypes import cast

_REFUSED = frozenset({"int64", "bool"})
"""The dtypes that every operation was tried with."""


class DtypeMismatch(Rule):
    """
    ## What it does
    Finds operations that reject the dtype of their tensor: the mean of integers or of a comparison, a layer applied to
    indices. Only a dry run sees every dtype; float64 data in a float32 layer, and float indices, are found by a run
    alone.

    ## Why is this bad?
    It raises when the line is reached. Matrix products, convolutions and recurrent layers do not convert their inputs:
    NumPy arrays are float64 by default, and images are often uint8.

    ## Example
    ```python
    labels = torch.tensor([0, 1, 1])
    mean = (labels == 1).mean()
    ```
    Use instead:
    ```python
    labels = torch.tensor([0, 1, 1])
    mean = (labels == 1).float().mean()
    ```

    ## Fix safety
    Safe: the code raised. A dry run tries further conversions where the tensor is created or used; those are safe only
    if no value changes.
    """

    code, name, since = "DG317", "dtype-mismatch", "0.1"
    severity = "error"
    VALID = [
        Valid("ids = [torch.arange(3)]\ny = nn.Embedding(4, 5)(*ids)"),
        Valid("y = nn.Linear(5, 2)(nn.EmbeddingBag(4, 5)(torch.zeros(2, 3, dtype=torch.int64)))"),
        Valid("accuracy = (torch.rand(8) > 0.5).float().mean()"),
        Valid("counts = torch.tensor([1, 2, 3])\ntotal, mean = counts.sum(), counts.mean(dtype=torch.float32)"),
        Valid("def f(x: torch.Tensor):\n    return x.argmax(1).double().std(), x.mean()"),
        Valid("rows = torch.eye(3).long() @ torch.arange(3)"),
        Valid("try:\n    m = torch.arange(3).mean()\nexcept RuntimeError:\n    m = torch.arange(3.0).mean()"),
        Valid(
            """
            import torch
            from torch import nn

            layer = nn.Linear(10, 5)

            # dry-run: x=torch.zeros(8, 10, dtype=torch.float64)
            def apply(x):
                return layer(x.float())
            """
        ),
    ]
    INVALID = [
        Invalid(
            "p, y = torch.randn(8, 3), torch.randint(0, 3, (8,))\naccuracy = (p.argmax(1) == y).mean()",
            "p, y = torch.randn(8, 3), torch.randint(0, 3, (8,))\naccuracy = (p.argmax(1) == y).float().mean()",
            at=(2, 11, 2, 36),
        ),
        Invalid("spread = torch.std(torch.tensor([1, 0, 1]))", "spread = torch.std(torch.tensor([1, 0, 1]).float())"),
        Invalid("out = nn.Linear(3, 2)(torch.arange(3))", "out = nn.Linear(3, 2)(torch.arange(3).float())"),
        Invalid("p = F.softmax(torch.tensor([[1, 2]]), dim=1)", "p = F.softmax(torch.tensor([[1, 2]]).float(), dim=1)"),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        if call is None or not call.receiver_known or not call.operands:
            return  # within a Sequential, the text does not show the operand
        operand = call.values[0]
        if not isinstance(operand, Tensor) or operand.dtype not in _REFUSED or ctx.tensor(call.operands[0]) is None:
            return
        described = asked(call.operation, call.values, call)
        if described is None or operand.dtype not in _refused(described, operand) or is_expected(node, ctx):
            return
        yield ctx.finding(
            self,
            node,
            f"{call.operation} takes floats; `{ctx.source_of(call.operands[0])}` is {operand.dtype}, which raises",
            fixes=[_fix(node, call, ctx)],
        )


def _fix(node: ast.Call, call: TorchCall, ctx: Context) -> Fix | None:
    """Make floats of the operand; of the receiver of a method behind the parentheses that it has."""
    text = ctx.source_of(node.func)
    if call.form != "method" or not isinstance(node.func, ast.Attribute) or not text.endswith(f".{node.func.attr}"):
        return cast(ctx, call.operands[0], "float")
    receiver = text.removesuffix(f".{node.func.attr}")
    return ctx.fix("Convert with `.float()`", ctx.replace(node.func, f"{receiver}.float().{node.func.attr}"))


def _refused(described: Asked, operand: Tensor) -> frozenset[str]:
    """Return the dtypes that a call refuses in its first operand, if its other tensors surely are floats."""
    names = described.op.signature
    first = described.argument(names[0]) if names else None
    others = [value for value in described.arguments.values() if isinstance(value, Tensor) and value is not operand]
    floats = all(other.dtype in FLOATING for other in others)
    return described.op.refuses(described.form) if first is operand and floats else frozenset()
