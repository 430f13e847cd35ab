"""Rule DG512: tensors as the keys of a cache."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context, FunctionNode
from drygrad.static.facts.values import Reference, Tensor

_CACHES = frozenset({"functools.lru_cache", "functools.cache"})


class TensorsInCache(Rule):
    """
    ## What it does
    Finds `functools.lru_cache` and `functools.cache` on functions that take tensors.

    ## Why is this bad?
    Tensors hash by identity, not by value, so the cache only hits for the same object. Meanwhile it keeps every tensor
    it was given, and every result with its graph: 128 of them by default, all of them with `maxsize=None` or
    `functools.cache`. Memory grows with each call.

    ## Example
    ```python
    @functools.lru_cache(maxsize=None)
    def rotate(x: torch.Tensor, angle: float) -> torch.Tensor: ...
    ```
    Use instead:
    ```python
    @functools.lru_cache(maxsize=None)
    def rotation(angle: float) -> torch.Tensor: ...
    ```

    ## Fix safety
    No fix: what should replace the cache depends on what must be remembered.
    """

    code, name, since = "DG512", "tensors-in-cache", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            import functools
            import torch

            @functools.lru_cache(maxsize=8)
            def mask(length: int) -> torch.Tensor:
                return torch.ones(length, length).triu(1)
            """
        ),
        Valid(
            """
            import functools

            @functools.cache
            def compiled(dtype: str, rows: int):
                return dtype * rows

            compiled(str(torch.ones(2).dtype), torch.ones(2).max())
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            from functools import lru_cache
            import torch

            @lru_cache(maxsize=None)
            def spectrum(x: torch.Tensor, n: int) -> torch.Tensor:
                return torch.fft.rfft(x, n)
            """,
            at=(4, 1, 4, 24),
        ),
        Invalid(
            """
            import functools
            import torch

            @functools.cache
            def scaled(x):
                return x * 2

            y = scaled(torch.randn(3))
            """,
        ),
    ]

    def visit_function(self, node: ast.FunctionDef, ctx: Context) -> Iterator[Finding]:
        cache = next((d for d in node.decorator_list if _is_cache(d, ctx)), None)
        if cache is None or not (_says_tensor(node, ctx) or _gets_tensor(node, ctx)):
            return
        message = "tensors hash by identity; this cache hits only for the same object, and keeps every tensor"
        yield ctx.finding(self, cache, message)


def _is_cache(decorator: ast.expr, ctx: Context) -> bool:
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ctx.name(named) in _CACHES


def _says_tensor(node: FunctionNode, ctx: Context) -> bool:
    annotations = (a.annotation for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs))
    return any(a is not None and _is_tensor_class(a, ctx) for a in annotations)


def _is_tensor_class(annotation: ast.expr, ctx: Context) -> bool:
    value = ctx.value(annotation)
    if isinstance(value, Reference):
        return value.name == "torch.Tensor"
    text = ctx.text(annotation)
    return text is not None and text in ("torch.Tensor", "Tensor") and ctx.imported_as("torch") is not None


def _gets_tensor(node: FunctionNode, ctx: Context) -> bool:
    given = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    if given and all(parameter.annotation is not None for parameter in given):
        return False  # the annotations know better what it is given
    return any(
        isinstance(value, Tensor)
        for site in ctx.callers(node)
        for value in (*site.arguments.positional, *site.arguments.keywords.values())
    )
