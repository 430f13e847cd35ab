"""Rule DG408: an epsilon that is zero in float16."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Constant, Object, ParameterList, Tensor
from drygrad.static.roles import is_optimizer_class

_VANISHES = 2.0**-25
"""Half of the smallest number that float16 can hold: what is not above it is rounded to 0."""
_DIVIDING = frozenset({"Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop"})
_DEFAULTS = {"normalize": 1e-12, "cosine_similarity": 1e-8}


class EpsilonUnderflows(Rule):
    """
    ## What it does
    Finds small numbers such as `1e-8` that are added to a float16 tensor, or clamp it from below, and underflow in
    float16. The dtype is known from the code, or float16 autocast produced it (the result of a layer or a matrix
    product).

    ## Why is this bad?
    The smallest positive float16 number is 6e-8, so `x + 1e-8` is `x`: the division or logarithm that it should protect
    still gives NaN or infinity, but only in half precision. `F.normalize` and `F.cosine_similarity`, with their default
    eps of 1e-12 and 1e-8, return NaN for a float16 vector of zeros.

    `Adam` divides by the root of squared gradients plus 1e-8. In float16 the squares of small gradients are 0 as well,
    and the first step makes these weights NaN or infinite (`fused=True` computes in float32). Mixed precision
    (`autocast` with a `GradScaler`) keeps the weights in float32.

    ## Example
    ```python
    half = x.half()
    y = half / (half.norm() + 1e-8)
    ```
    Use instead:
    ```python
    half = x.half()
    y = half / (half.norm() + torch.finfo(half.dtype).tiny)
    ```

    ## Fix safety
    Unsafe: the result changes for tiny values.
    """

    code, name, since = "DG408", "epsilon-underflows", "0.1"
    severity = "warning"
    calls = frozenset({"add", "clamp", "clamp_min", "normalize", "cosine_similarity"})
    VALID = [
        Valid("def f(x):\n    return x.half() + 1e-6, x.float() + 1e-8, x.bfloat16() + 1e-8"),
        Valid("def f(x: torch.Tensor):\n    return (x + 1e-8).half(), x.half().float().clamp(min=1e-8)"),
        Valid(
            "def f(x: torch.Tensor, layer: nn.Linear):\n    with torch.autocast('cuda', dtype=torch.float16):\n"
            "        p = layer(x).softmax(-1)\n"
            "        return (p + 1e-8).log(), layer(x).float() + 1e-8, layer(x) + 1e-5"
        ),
        Valid("def f(x: torch.Tensor):\n    return F.normalize(x.half(), eps=1e-5), F.normalize(x), x.half() + 0"),
        Valid(
            "half, whole = nn.Linear(8, 8).half(), nn.Linear(8, 8)\n"
            "first = torch.optim.Adam(half.parameters(), eps=1e-4)\nsecond = torch.optim.AdamW(whole.parameters())\n"
            "third = torch.optim.SGD(half.parameters(), lr=0.1)\n"
            "fused = torch.optim.AdamW(half.parameters(), fused=True)"
        ),
    ]
    INVALID = [
        Invalid(
            "def f(x):\n    x = x.half()\n    return x / (x.norm() + 1e-8)",
            "def f(x):\n    x = x.half()\n    return x / (x.norm() + torch.finfo(torch.float16).tiny)",
            at=(3, 27, 3, 31),
        ),
        Invalid(
            "layer = nn.Linear(8, 8)\n\ndef step(x):\n    with torch.autocast('cuda', dtype=torch.float16):\n"
            "        y = layer(x)\n        return y / (y.abs() + 1e-8)",
            "layer = nn.Linear(8, 8)\n\ndef step(x):\n    with torch.autocast('cuda', dtype=torch.float16):\n"
            "        y = layer(x)\n        return y / (y.abs() + torch.finfo(torch.float16).tiny)",
            at=(6, 30, 6, 34),
        ),
        Invalid(
            "EPS = 1e-10\n\ndef f(x: torch.Tensor):\n    weights = x.to(torch.float16)\n"
            "    return weights.clamp(min=EPS).log()",
            at=(5, 29, 5, 32),
        ),
        Invalid("def f(x):\n    return F.normalize(x.half(), dim=-1)", at=(2, 11, 2, 40)),
        Invalid(
            "model = nn.Linear(8, 8).cuda().half()\noptimizer = torch.optim.Adam(model.parameters(), lr=1e-3)",
            at=(2, 12, 2, 57),
        ),
    ]

    def visit_sum(self, node: ast.BinOp, ctx: Context) -> Iterator[Finding]:
        if not isinstance(node.op, ast.Add):
            return
        for tensor, amount in ((node.left, node.right), (node.right, node.left)):
            yield from self._check(tensor, amount, ctx)

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        if call is None:
            return
        given = call.operand("x1" if call.operation == "cosine_similarity" else "input")
        if given is None:
            return
        if call.operation in _DEFAULTS:
            if "eps" not in call.keywords and call.operand("eps") is None and _is_half(given, ctx):
                yield self._of_default(node, call.operation, ctx)
            return
        amount = call.operand("min" if call.operation.startswith("clamp") else "other")
        if call.operation == "add" and len(call.operands) > 1:
            amount = call.operands[1]
        if amount is not None:
            yield from self._check(given, amount, ctx)

    def visit_optimizer(self, statement: ast.Assign, ctx: Context) -> Iterator[Finding]:
        node = statement.value
        made = ctx.value(node)
        if not isinstance(made, Object) or made.node is not node or made.type.rpartition(".")[2] not in _DIVIDING:
            return
        given = made.arguments.get("params", 0)
        eps = made.arguments.get("eps", 3)
        fused = made.arguments.get("fused")
        if fused is not None and not (isinstance(fused, Constant) and not fused.value):
            return  # its kernel divides in float32
        module = given.module if isinstance(given, ParameterList) else None
        if eps is None and is_optimizer_class(made.type) and isinstance(module, Object) and module.dtype == "float16":
            message = "the default eps of 1e-8 is 0 in float16; dividing by 0 turns weights into NaN on the first step"
            yield ctx.finding(self, node, message)

    def _check(self, tensor: ast.expr, amount: ast.expr, ctx: Context) -> Iterator[Finding]:
        value = ctx.value(amount)
        number = value.value if isinstance(value, Constant) else None
        if not isinstance(number, float) or not 0 < number <= _VANISHES or not _is_half(tensor, ctx):
            return
        yield ctx.finding(
            self,
            amount,
            f"{number:g} underflows to 0 in float16 (smallest value 6e-08), so it has no effect",
            fixes=[self._fix(amount, ctx)],
        )

    def _of_default(self, node: ast.Call, operation: str, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            node,
            f"the default eps of {operation}, {_DEFAULTS[operation]:g}, is 0 in float16; a zero vector gives NaN",
        )

    def _fix(self, amount: ast.expr, ctx: Context) -> Fix | None:
        torch = ctx.imported_as("torch")
        if torch is None or not isinstance(amount, ast.Constant):
            return None
        return ctx.fix(
            "Use an eps that float16 can represent", ctx.replace(amount, f"{torch}.finfo({torch}.float16).tiny")
        )


def _is_half(node: ast.expr, ctx: Context) -> bool:
    tensor = ctx.tensor(node)
    return isinstance(tensor, Tensor) and tensor.dtype == "float16"
