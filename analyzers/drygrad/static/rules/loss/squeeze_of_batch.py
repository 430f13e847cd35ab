"""Rule DG320: a squeeze that also takes the batch where it has one sample."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.iteration import contained_modules
from drygrad.static.facts.values import Constant, Object, Tensor, TorchCall, Value
from drygrad.static.syntax import called

_PRODUCTS = {"matmul": ((-2,), (-1,)), "bmm": ((-2, 1), (-1, 2))}
"""Products of batches, with the dimensions that make a row of the first operand and a column of the second."""
_KEEPS_FEATURES = frozenset("sigmoid tanh relu softplus exp clamp neg float dropout".split())


class SqueezeOfBatch(Rule):
    """
    ## What it does
    Finds `squeeze()` without a dimension in a module, on the output of a linear layer with one feature, or on a batched
    matrix product with an operand that `unsqueeze` turned into a matrix.

    ## Why is this bad?
    `squeeze()` removes every dimension of size 1. For a batch of one sample, such as the last one of an epoch, that
    includes the batch: the shape is `()` instead of `(1,)`, and the code after it fails (`cat`, a loss with targets of
    shape `(1,)`) or broadcasts.

    ## Example
    ```python
    class Regressor(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(8, 1)

        def forward(self, x):
            return self.head(x).squeeze()
    ```
    Use instead:
    ```python
    class Regressor(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(8, 1)

        def forward(self, x):
            return self.head(x).squeeze(-1)
    ```

    ## Fix safety
    Safe: the result is the same whenever the batch has more than one sample.
    """

    code, name, since = "DG320", "squeeze-of-batch", "0.1"
    severity = "info"
    VALID = [
        Valid(
            """
            class Score(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.head, self.wide = nn.Linear(8, 1), nn.Linear(8, 4)

                def forward(self, x):
                    return self.head(x).squeeze(-1), self.wide(x).squeeze()

                def rate(self, x):
                    return self.head(x).squeeze().item()
            """
        ),
        Valid("head = nn.Linear(8, 1)\ny = head(torch.randn(4, 8)).squeeze()"),
    ]
    INVALID = [
        Invalid(
            """
            class Attention(nn.Module):
                def forward(self, query, keys):
                    return torch.bmm(keys, query.unsqueeze(2)).squeeze()
            """,
            """
            class Attention(nn.Module):
                def forward(self, query, keys):
                    return torch.bmm(keys, query.unsqueeze(2)).squeeze(-1)
            """,
        ),
        Invalid(
            """
            class Attention(nn.Module):
                def forward(self, weights, values):
                    return torch.matmul(weights.unsqueeze(-2), values).squeeze()
            """,
            """
            class Attention(nn.Module):
                def forward(self, weights, values):
                    return torch.matmul(weights.unsqueeze(-2), values).squeeze(-2)
            """,
        ),
        Invalid(
            """
            class Score(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))

                def forward(self, x):
                    return torch.sigmoid(self.body(x)).squeeze()
            """,
            """
            class Score(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))

                def forward(self, x):
                    return torch.sigmoid(self.body(x)).squeeze(-1)
            """,
            at=(7, 15, 7, 52),
        ),
    ]

    calls = ("squeeze",)

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        function = ctx.function(node)
        owner = ctx.parent(function) if function is not None else None
        if call is None or call.form != "method" or len(call.operands) != 1 or call.keywords:
            return
        if not isinstance(owner, ast.ClassDef) or not ctx.is_module_class(owner) or _becomes_number(node, ctx):
            return
        tensor = ctx.tensor(call.operands[0])
        narrow = _narrow_dimension(tensor) if tensor is not None and _has_unknown_batch(tensor) else None
        if narrow is None:
            return
        text = ctx.source_of(node)
        edit = ctx.replace(node, f"{text[:-2]}({narrow})") if text.endswith("()") else None
        message = "squeeze() also drops the batch dimension when the batch has one sample"
        title = "Squeeze the last dimension only" if narrow == -1 else "Squeeze that dimension only"
        yield ctx.finding(self, node, message, fixes=[ctx.fix(title, edit, safety="safe")])


def _becomes_number(node: ast.Call, ctx: Context) -> bool:
    parent = ctx.parent(node)
    outer = ctx.parent(parent) if parent is not None else None
    return isinstance(outer, ast.Call) and called(outer) in ("item", "tolist", "numpy")


def _has_unknown_batch(tensor: Tensor) -> bool:
    return tensor.shape is None or (len(tensor.shape) >= 2 and not isinstance(tensor.shape[0], int))


def _narrow_dimension(tensor: Tensor) -> int | None:
    """Return the dimension that surely has size one: of a feature, or of a vector that a product took for a matrix."""
    if _has_one_feature(tensor):
        return -1
    origin = tensor.origin
    if origin is None or origin.operation not in _PRODUCTS or len(origin.operands) < 2:
        return None
    row = _added(origin.operands[0]) in _PRODUCTS[origin.operation][0]
    column = _added(origin.operands[1]) in _PRODUCTS[origin.operation][1]
    return None if row == column else (-2 if row else -1)


def _added(value: Value) -> object:
    """Return the dimension that an ``unsqueeze`` has given an operand; None where none has."""
    if not isinstance(value, Tensor) or not value.made_by("unsqueeze") or value.origin is None:
        return None
    return next((given.value for given in value.origin.operands if isinstance(given, Constant)), None)


def _has_one_feature(tensor: Tensor) -> bool:
    """Say whether a linear layer with one output made a tensor, directly or with element-wise functions after it."""
    origin = tensor.origin
    while origin is not None and origin.operation in _KEEPS_FEATURES:
        inner = next((value for value in origin.operands if isinstance(value, Tensor)), None)
        origin = inner.origin if inner is not None else None
    if origin is None or origin.operation != "linear" or origin.call is None:
        return False
    return _is_narrow(origin.call)


def _is_narrow(call: TorchCall) -> bool:
    layer: object = call.module
    parts = contained_modules(layer) if isinstance(layer, Object) else None
    if parts is not None and parts.items:
        layer = parts.items[-1]
    return isinstance(layer, Object) and layer.arguments.get("out_features", 1) == Constant(1)
