"""Rule DG809: images that ToTensor has scaled to [0, 1] and that are treated as if they went to 255."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Constant, Sequence, Value
from drygrad.static.rules.api.transforms import resolved, steps_of, transform_name
from drygrad.static.syntax import argument, last_assignment

_FUNCTIONS = frozenset(
    {"torchvision.transforms.functional.to_tensor", "torchvision.transforms.v2.functional.to_tensor"}
)
_MAXIMA = (255, 255.0, 256, 256.0, 127.5)


class ImageScaledTwice(Rule):
    """
    ## What it does
    Finds the result of torchvision's `ToTensor` divided by 255 or converted with `long()`, and `Normalize` after
    `ToTensor` with a mean above 1.

    ## Why is this bad?
    `ToTensor` already divides 8-bit images by 255. Divided again, they lie between 0 and 0.004; with a mean of 127.5
    subtracted, all values are nearly equal: the model sees nothing. The class indices of a mask become fractions that
    `long()` truncates to 0: all background. Use `torch.from_numpy(np.array(mask))` or `PILToTensor` for masks.

    ## Example
    ```python
    from torchvision import transforms

    to_tensor = transforms.ToTensor()
    x = to_tensor(image) / 255
    ```
    Use instead:
    ```python
    from torchvision import transforms

    to_tensor = transforms.ToTensor()
    x = to_tensor(image)
    ```
    """

    code, name, since = "DG809", "image-scaled-twice", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            import torch
            from torchvision import transforms as T

            to_tensor = T.ToTensor()
            pipeline = T.Compose([T.ToTensor(), T.Normalize([0.5], [0.5])])
            raw = T.Compose([T.PILToTensor(), T.Normalize(mean=[127.5], std=[127.5])])

            def load(image, mask):
                return (to_tensor(image) - 0.5) / 0.5, (to_tensor(mask) * 255).long(), T.PILToTensor()(image) / 255
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch
            from torchvision import transforms as T

            class Photos(torch.utils.data.Dataset):
                def __init__(self, images):
                    self.images, self.to_tensor = images, T.ToTensor()
                    self.convert = T.ToTensor()

                def __getitem__(self, i):
                    x = self.convert(self.images[i])
                    return x / 255.0
            """,
            at=(11, 15, 11, 24),
        ),
        Invalid(
            """
            import torch
            from torchvision import transforms as T
            pipeline = T.Compose([T.Resize(64), T.ToTensor(), T.Normalize(mean=[127.5] * 3, std=[127.5] * 3)])
            """,
            at=(3, 50, 3, 96),
        ),
        Invalid(
            """
            import torch
            from torchvision.transforms import ToTensor

            def load(mask):
                return ToTensor()(mask).squeeze(0).long()
            """,
            at=(5, 11, 5, 45),
        ),
    ]

    def visit_division(self, node: ast.BinOp, ctx: Context) -> Iterator[Finding]:
        if not isinstance(node.op, ast.Div):
            return
        divisor = ctx.value(node.right)
        if isinstance(divisor, Constant) and divisor.value in _MAXIMA and _is_scaled(node.left, ctx):
            yield ctx.finding(self, node, "ToTensor has already divided by 255; these values are at most 0.004")

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.Call(func=ast.Attribute(value=given, attr="long" | "int"), args=[]) if _is_scaled(given, ctx):
                yield ctx.finding(
                    self, node, "ToTensor has divided the class labels by 255; as integers they are all 0"
                )
            case ast.Call(func=ast.Attribute(value=given, attr="div" | "div_"), args=[divisor]):
                if ctx.value(divisor) in [Constant(value) for value in _MAXIMA] and _is_scaled(given, ctx):
                    yield ctx.finding(self, node, "ToTensor has already divided by 255; these values are at most 0.004")
            case _:
                if transform_name(node, ctx) == "Compose":
                    yield from self._normalised(node, ctx)

    def _normalised(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        scaled: ast.expr | None = None
        for step in steps_of(node, ctx):
            name = transform_name(step, ctx)
            if name == "ToTensor":
                scaled = step
            mean = argument(step, "mean", 0) if name == "Normalize" and isinstance(step, ast.Call) else None
            if scaled is not None and _exceeds_one(mean, ctx):
                message = "ToTensor has already scaled the image to [0, 1]; this mean is one of values up to 255"
                yield ctx.finding(self, step, message, related=[("scaled here", scaled)])


def _is_scaled(node: ast.expr, ctx: Context) -> bool:
    """Say whether an expression is the result of ToTensor, at most laid out anew."""
    while True:
        match node:
            case ast.Name(id=name):
                before = last_assignment(ctx, name, ctx.statement(node))
                if before is None:
                    return False
                node = before
            case ast.Call(func=ast.Attribute(value=inner, attr="squeeze" | "unsqueeze" | "float" | "contiguous")):
                node = inner
            case ast.Subscript(value=inner):
                node = inner
            case ast.Call(func=function):
                return _scales(function, ctx)
            case _:
                return False


def _scales(function: ast.expr, ctx: Context) -> bool:
    if ctx.name(function) in _FUNCTIONS:
        return True
    made = resolved(function, ctx)
    if made is None or (made is function and not isinstance(made, ast.Call)):
        return False
    steps = steps_of(made, ctx)
    return bool(steps) and transform_name(steps[-1], ctx) == "ToTensor"


def _exceeds_one(mean: ast.expr | None, ctx: Context) -> bool:
    """Say whether a mean is above 1 in some channel."""
    if isinstance(mean, ast.BinOp) and isinstance(mean.op, ast.Mult):
        return _exceeds_one(mean.left, ctx)
    value = ctx.value(mean)
    items: tuple[Value, ...] = (value.items or ()) if isinstance(value, Sequence) else (value,)
    numbers = [item.value for item in items if isinstance(item, Constant)]
    return any(isinstance(number, (int, float)) and number > 1 for number in numbers)
