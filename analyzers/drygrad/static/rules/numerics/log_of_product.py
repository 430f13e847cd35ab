"""Rule DG416: the logarithm of a product of probabilities."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Constant, Tensor, Value

_SMALL = frozenset({"sigmoid", "softmax", "exp"})
_KEEPS = frozenset({"gather", "getitem", "squeeze", "view", "reshape", "index_select", "clamp", "to", "float"})


class LogOfProduct(Rule):
    """
    ## What it does
    Finds `p.prod(dim).log()` if `p` are probabilities: the result of `softmax`, `sigmoid` or `exp`.

    ## Why is this bad?
    A product of many numbers below one soon underflows: in float32 a hundred factors of 0.3 (5e-53) give 0, whose
    logarithm is -inf. The sum of the logarithms is -120.

    ## Example
    ```python
    log_likelihood = scores.sigmoid().prod(dim=-1).log()
    ```
    Use instead:
    ```python
    log_likelihood = F.logsigmoid(scores).sum(dim=-1)
    ```
    """

    code, name, since = "DG416", "log-of-product", "0.1"
    severity = "warning"
    VALID = [
        Valid("def f(x: torch.Tensor):\n    return x.log_softmax(-1).sum(-1), x.prod(-1).log()"),
    ]
    INVALID = [
        Invalid(
            "def f(x: torch.Tensor):\n    p = x.sigmoid()\n    return torch.log(p.prod(dim=-1))",
            at=(3, 11, 3, 36),
        ),
    ]

    calls = ("log",)

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        tensor = ctx.tensor(call.operands[0]) if call is not None and call.operands else None
        product = tensor.origin if tensor is not None and tensor.made_by("prod") else None
        if product is None or not product.operands or not _is_small(product.operands[0]):
            return
        message = "a product of many probabilities underflows to 0 in float32 and its log is -inf; sum the logs instead"
        yield ctx.finding(self, node, message)


def _is_small(value: Value) -> bool:
    """Say whether a value is made of numbers below one."""
    while isinstance(value, Tensor) and value.origin is not None:
        origin = value.origin
        if origin.operation in _SMALL:
            return True
        if origin.operation == "sub" and origin.operands[:1] == (Constant(1),):
            value = origin.operands[1]
        elif origin.operation in _KEEPS and origin.operands:
            value = origin.operands[0]
        else:
            return False
    return False
