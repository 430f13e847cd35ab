"""Rule DG816: a function of torch called as a method that tensors do not have."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.expected_errors import is_expected
from drygrad.static.facts.operations import NO_METHODS, NO_METHODS_OF_TORCH
from drygrad.static.facts.values import Tensor

_GIVES_METHODS = re.compile(r"\b(fastai|fastcore)\b|setattr\(\s*(torch\.)?Tensor\b")
"""What gives tensors methods that torch does not."""


class MethodTensorsLack(Rule):
    """
    ## What it does
    Finds calls such as `x.leaky_relu()` or `x.cat(y)`: functions of `torch` or `torch.nn.functional` that are not
    tensor methods.

    ## Why is this bad?
    The call raises AttributeError. Many torch functions are also methods (`x.relu()`, `x.softmax(-1)`), but not all.
    Subclasses of `torch.Tensor`, and files that add methods to tensors, are not reported.

    ## Example
    ```python
    y = torch.rand(3).leaky_relu()
    ```
    Use instead:
    ```python
    y = F.leaky_relu(torch.rand(3))
    ```

    ## Fix safety
    Unsafe: code that raised now runs.
    """

    code, name, since = "DG816", "method-tensors-lack", "0.1"
    severity = "error"
    calls = NO_METHODS
    VALID = [
        Valid("y = torch.rand(3).relu().softmax(-1)"),
        Valid("y = F.leaky_relu(torch.rand(3))"),
        Valid("def f(x):\n    return x.normalize()"),
        Valid("torch.Tensor.gelu = lambda x: F.gelu(x)\ny = torch.rand(3).gelu()"),
        Valid("class Image(torch.Tensor):\n    pass\n\ndef f(x: torch.Tensor):\n    return x.pad(1)"),
        Valid("x = torch.rand(3)\nif hasattr(x, 'gelu'):\n    x = x.gelu()"),
        Valid("x = torch.rand(3)\ntry:\n    x = x.gelu()\nexcept AttributeError:\n    x = F.gelu(x)"),
    ]
    INVALID = [
        Invalid(
            "y = torch.rand(3).leaky_relu(0.2)",
            "y = F.leaky_relu(torch.rand(3), 0.2)",
            at=(1, 4, 1, 33),
        ),
        Invalid(
            """
            def forward(x: torch.Tensor):
                h = x.relu() @ x.mT
                return h.leaky_relu()
            """,
            """
            def forward(x: torch.Tensor):
                h = x.relu() @ x.mT
                return F.leaky_relu(h)
            """,
        ),
        Invalid("parts = torch.rand(3), torch.rand(3)\ny = parts[0].stack(parts[1])"),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call, function = ctx.call(node), node.func
        if call is None or call.form != "method" or not call.receiver_known or not isinstance(function, ast.Attribute):
            return
        method = function.attr
        if method not in NO_METHODS or not isinstance(call.values[0], Tensor) or _may_have(method, node, ctx):
            return
        yield ctx.finding(
            self,
            node,
            f"tensors have no method `{method}`; this raises AttributeError",
            fixes=[_fix(node, function, ctx)],
        )


def _may_have(method: str, node: ast.Call, ctx: Context) -> bool:
    """Say whether the file asks for the method first, or gives it to tensors."""
    if any(cls.derives_from("torch.Tensor") for cls in ctx.classes()) or ctx.mentions(_GIVES_METHODS):
        return True
    if any(attribute.attr == method and isinstance(attribute.ctx, ast.Store) for attribute in ctx.nodes(ast.Attribute)):
        return True
    asks = any(isinstance(a, (ast.If, ast.IfExp)) and "hasattr" in ctx.source_of(a.test) for a in ctx.ancestors(node))
    tries = any(isinstance(a, ast.Try) and "AttributeError" in ctx.source_of(a) for a in ctx.ancestors(node))
    return asks or tries or is_expected(node, ctx)


def _fix(node: ast.Call, function: ast.Attribute, ctx: Context) -> Fix | None:
    """Call the function of ``torch.nn.functional``; those of ``torch`` mostly take a list first."""
    functional = ctx.imported_as("torch.nn.functional")
    if functional is None or function.attr in NO_METHODS_OF_TORCH:
        return None
    given = [ctx.source_of(each) for each in (function.value, *node.args)]
    named = [f"{keyword.arg}={ctx.source_of(keyword.value)}" for keyword in node.keywords if keyword.arg is not None]
    if len(named) != len(node.keywords):
        return None
    text = f"{functional}.{function.attr}({', '.join([*given, *named])})"
    return ctx.fix(f"Call `{functional}.{function.attr}`", ctx.replace(node, text))
