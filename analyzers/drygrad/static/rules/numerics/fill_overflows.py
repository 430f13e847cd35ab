"""Rule DG409: a number that float16 cannot hold."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Constant, Dtype, Tensor, TorchCall

LARGEST = 65504.0
"""The largest number of float16."""
POSITIONS = {
    "masked_fill": (("value", 2),),
    "fill": (("value", 1),),
    "full": (("fill_value", 1),),
    "full_like": (("fill_value", 1),),
    "new_full": (("fill_value", 2),),
    "index_fill": (("value", 3),),
    "clamp": (("min", 1), ("max", 2)),
    "clamp_min": (("min", 1),),
    "clamp_max": (("max", 1),),
    "pad": (("value", 3),),
}
"""Operations that convert a number to the tensor's dtype, and refuse one that does not fit, with its name and place."""


class FillOverflows(Rule):
    """
    ## What it does
    Finds numbers beyond 65504 passed to `masked_fill`, `fill_`, `full`, `clamp` and the like on a float16 tensor: one
    that the code converts to half, or that float16 autocast produces (the result of a layer or a matrix product).

    ## Why is this bad?
    It raises "value cannot be converted to type c10::Half without overflow". The usual `-1e9` of an attention mask
    works in float32 and fails as soon as mixed precision is enabled.

    ## Example
    ```python
    scores = scores.half().masked_fill(mask, -1e9)
    ```
    Use instead:
    ```python
    scores = scores.half().masked_fill(mask, torch.finfo(torch.float16).min)
    ```

    ## Fix safety
    Safe: the call raised before.
    """

    code, name, since = "DG409", "fill-overflows", "0.1"
    severity = "error"
    calls = frozenset(POSITIONS)
    VALID = [
        Valid(
            "def f(x, mask):\n"
            "    return x.half().masked_fill(mask, float('-inf')), x.half().masked_fill(mask, -65504.0)"
        ),
        Valid("def f(x, mask):\n    return x.float().masked_fill(mask, -1e9), x.bfloat16().masked_fill(mask, -1e9)"),
        Valid("def f(x: torch.Tensor, mask):\n    return x.masked_fill(mask, -1e9), x.half().masked_fill(mask, -1e4)"),
        Valid("def f(x, mask):\n    x = x.half()\n    return x.masked_fill(mask, torch.finfo(x.dtype).min)"),
        Valid(
            "def f(q, mask, layer: nn.Linear):\n    with torch.autocast('cuda', dtype=torch.bfloat16):\n"
            "        return layer(q).masked_fill(mask, -1e9)"
        ),
        Valid(
            "def f(q, mask, layer: nn.Linear):\n    with torch.autocast('cuda', dtype=torch.float16):\n"
            "        return layer(q).float().masked_fill(mask, -1e9)"
        ),
    ]
    INVALID = [
        Invalid(
            "def f(x, mask):\n    x = x.half()\n    return x.masked_fill(mask == 0, -1e9).softmax(-1)",
            "def f(x, mask):\n    x = x.half()\n"
            "    return x.masked_fill(mask == 0, torch.finfo(x.dtype).min).softmax(-1)",
            at=(3, 36, 3, 40),
        ),
        Invalid(
            "class Attention(nn.Module):\n    def __init__(self, dim):\n        super().__init__()\n"
            "        self.q, self.k = nn.Linear(dim, dim), nn.Linear(dim, dim)\n\n"
            "    def forward(self, x, mask):\n"
            "        scores = self.q(x) @ self.k(x).transpose(-2, -1)\n"
            "        scores = scores.masked_fill(mask, -1e9)\n        return scores.softmax(-1)\n\n"
            "attention = Attention(64)\nwith torch.autocast('cuda', dtype=torch.float16):\n"
            "    out = attention(torch.randn(2, 5, 64), torch.zeros(5, 5).bool())",
            "class Attention(nn.Module):\n    def __init__(self, dim):\n        super().__init__()\n"
            "        self.q, self.k = nn.Linear(dim, dim), nn.Linear(dim, dim)\n\n"
            "    def forward(self, x, mask):\n"
            "        scores = self.q(x) @ self.k(x).transpose(-2, -1)\n"
            "        scores = scores.masked_fill(mask, torch.finfo(scores.dtype).min)\n"
            "        return scores.softmax(-1)\n\n"
            "attention = Attention(64)\nwith torch.autocast('cuda', dtype=torch.float16):\n"
            "    out = attention(torch.randn(2, 5, 64), torch.zeros(5, 5).bool())",
            at=(8, 42, 8, 46),
        ),
        Invalid(
            "mask = torch.full((4, 4), -1e9, dtype=torch.float16).triu(1)",
            "mask = torch.full((4, 4), torch.finfo(torch.float16).min, dtype=torch.float16).triu(1)",
        ),
        Invalid(
            "NEGATIVE = -1e10\n\ndef f(x: torch.Tensor, mask):\n    x = x.to(dtype=torch.float16)\n"
            "    x.masked_fill_(mask, value=NEGATIVE)",
            "NEGATIVE = -1e10\n\ndef f(x: torch.Tensor, mask):\n    x = x.to(dtype=torch.float16)\n"
            "    x.masked_fill_(mask, value=torch.finfo(x.dtype).min)",
        ),
        Invalid(
            "def f(x):\n    return x.half().clamp(max=1e6)",
            "def f(x):\n    return x.half().clamp(max=torch.finfo(torch.float16).max)",
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        if call is None or not _fills_half(call):
            return
        for name, position in POSITIONS[call.operation]:
            given = call.keywords.get(name) or next(iter(call.operands[position : position + 1]), None)
            value = ctx.value(given)
            number = value.value if isinstance(value, Constant) else None
            if given is None or not isinstance(number, (int, float)) or not LARGEST < abs(number) < math.inf:
                continue
            yield ctx.finding(
                self,
                given,
                f"{call.operation} raises: {number:g} does not fit in float16, whose maximum is 65504",
                fixes=[self._fix(call, given, "min" if number < 0 else "max", ctx)],
            )

    def _fix(self, call: TorchCall, given: ast.expr, bound: str, ctx: Context) -> Fix | None:
        torch = ctx.imported_as("torch")
        if torch is None:
            return None
        named = None if call.operation == "full" else dotted_text(call.operands[0])
        dtype = f"{named}.dtype" if named is not None and not call.operation.startswith("new") else f"{torch}.float16"
        text = f"{torch}.finfo({dtype}).{bound}"
        return ctx.fix("Use `torch.finfo(torch.float16)`", ctx.replace(given, text), safety="safe")


def _fills_half(call: TorchCall) -> bool:
    """Say whether what is filled is float16: the tensor, or what a factory makes."""
    dtype = call.keyword_values.get("dtype")
    if dtype is not None:
        return isinstance(dtype, Dtype) and dtype.name == "float16"
    tensor = call.values[0] if call.values and call.operation != "full" else None
    return isinstance(tensor, Tensor) and tensor.dtype == "float16"
