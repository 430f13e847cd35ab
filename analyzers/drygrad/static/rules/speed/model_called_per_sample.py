"""Rule DG612: a model that gets the samples of a batch one at a time."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import UNKNOWN, Object, Tensor
from drygrad.static.roles import role_of
from drygrad.static.tree import walk


class ModelCalledPerSample(Rule):
    """
    ## What it does
    Finds loops over the rows of a tensor that call a model on each row as a batch of one (`model(x.unsqueeze(0))`).

    ## Why is this bad?
    A GPU needs about as long for one sample as for a hundred: it mostly waits for the next kernel launch. On a CPU,
    every call has a fixed cost, too. Call the model on the whole batch.

    ## Example
    ```python
    def predict(model: nn.Module, images: torch.Tensor):
        outputs = []
        for image in images:
            outputs.append(model(image.unsqueeze(0)))
        return torch.cat(outputs)
    ```
    Use instead:
    ```python
    def predict(model: nn.Module, images: torch.Tensor):
        return model(images)
    ```
    """

    code, name, since = "DG612", "model-called-per-sample", "0.1"
    severity = "info"
    VALID = [
        Valid(
            """
            def embed(model: nn.Linear, texts):
                return [model(encode(text).unsqueeze(0)) for text in texts]

            def predict(model: nn.Linear, images: torch.Tensor):
                for part in images.split(32):
                    yield model(part)
            """
        ),
        Valid(
            """
            def unroll(cell: nn.GRUCell, x: torch.Tensor, h):
                for step in x:
                    h = cell(step.unsqueeze(0), h)
                return h
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            def predict(model: nn.Linear, images: torch.Tensor):
                outputs = []
                for image in images:
                    outputs.append(model(image.unsqueeze(0)))
                return torch.cat(outputs)
            """,
            at=(4, 23, 4, 48),
        ),
        Invalid(
            """
            def predict(model: nn.Linear, images: torch.Tensor):
                outputs = []
                for i in range(len(images)):
                    outputs.append(model(images[i : i + 1]))
                return torch.cat(outputs)
            """
        ),
    ]

    def visit_loop(self, node: ast.For, ctx: Context) -> Iterator[Finding]:
        row, counter = _row_of(node, ctx)
        if row is None and counter is None:
            return
        for part in (p for statement in node.body for p in walk(statement)):
            if not isinstance(part, ast.Call) or len(part.args) != 1 or part.keywords or not _is_model(part, ctx):
                continue
            if _is_batch_of_one(part.args[0], row, counter, ctx):
                message = "the model is called on one row at a time; pass the whole batch"
                yield ctx.finding(self, part, message, related=[("the loop over the rows", node.target)])
                return


def _row_of(node: ast.For, ctx: Context) -> tuple[str | None, str | None]:
    """Return the name of a tensor's row in a loop, or of the counter of its rows."""
    match node:
        case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=[ast.Call() as count])):
            return None, name if _counts_rows(count, ctx) else None
        case ast.For(target=ast.Name(id=name), iter=source):
            tensor = ctx.tensor(source)
            return (name if tensor is not None and not tensor.made_by("split", "chunk") else None), None
        case _:
            return None, None


def _counts_rows(count: ast.Call, ctx: Context) -> bool:
    match count:
        case ast.Call(func=ast.Name(id="len"), args=[whole]):
            return ctx.tensor(whole) is not None
        case ast.Call(func=ast.Attribute(value=whole, attr="size"), args=[ast.Constant(value=0)]):
            return ctx.tensor(whole) is not None
        case _:
            return False


def _is_model(call: ast.Call, ctx: Context) -> bool:
    value = ctx.value(call.func)
    if isinstance(value, Object):
        return value.is_module and not value.type.endswith("Cell")
    return value is UNKNOWN and role_of(ctx, call.func) == "model"


def _is_batch_of_one(given: ast.expr, row: str | None, counter: str | None, ctx: Context) -> bool:
    match given:
        case ast.Call(func=ast.Attribute(value=inner, attr="unsqueeze"), args=[ast.Constant(value=0)]):
            return _is_row(inner, row, counter, ctx)
        case ast.Subscript(value=inner, slice=ast.Constant(value=None)):
            return _is_row(inner, row, counter, ctx)
        case ast.Subscript(value=inner, slice=ast.Slice(lower=ast.Name(id=low), upper=upper)) if counter == low:
            return ctx.tensor(inner) is not None and upper is not None and ast.unparse(upper) == f"{counter} + 1"
        case _:
            return False


def _is_row(node: ast.expr, row: str | None, counter: str | None, ctx: Context) -> bool:
    match node:
        case ast.Subscript(value=whole, slice=ast.Name(id=index)):
            return index == counter and isinstance(ctx.value(whole), Tensor)
        case _:
            return row is not None and dotted_text(node) == row
