"""Rule DG326: probabilities, or the best, of a single class."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Constant, Origin, Tensor, TorchCall
from drygrad.static.rules.loss.activations import layer_of
from drygrad.static.rules.loss.origins import LOGITS, maker
from drygrad.static.tree import walk

_ALWAYS = {
    "softmax": "the result is always 1",
    "log_softmax": "the result is always 0",
    "argmax": "the result is always 0",
    "max": "the index is always 0",
    "cross_entropy": "the loss is 0 from the start",
}


class OneClass(Rule):
    """
    ## What it does
    Finds `softmax`, `log_softmax`, `argmax` (or the indices of `max`) and `cross_entropy` over a dimension of size 1:
    the single output of a linear layer or a convolution.

    ## Why is this bad?
    The softmax of a single number is always 1, and its gradient is zero. A binary classifier with one output needs a
    sigmoid (and `binary_cross_entropy_with_logits`), or two outputs. Attention scores of shape (batch, time, 1) must be
    normalized over time, not over the last dimension.

    ## Example
    ```python
    score = nn.Linear(16, 1)
    weights = score(hidden).softmax(dim=-1)
    ```
    Use instead:
    ```python
    score = nn.Linear(16, 1)
    weights = score(hidden).softmax(dim=1)
    ```

    ## Fix safety
    No fix: a second output and a binary loss both change the model or its targets.
    """

    code, name, since = "DG326", "one-class", "0.1"
    severity = "warning"
    calls = frozenset(_ALWAYS)
    VALID = [
        Valid("h, score = torch.randn(4, 6, 16), nn.Linear(16, 1)\nw = score(h).softmax(dim=1)"),
        Valid("h, score = torch.randn(4, 6, 16), nn.Linear(16, 1)\nw = score(h).squeeze(-1).softmax(-1)"),
        Valid("h, head = torch.randn(4, 16), nn.Linear(16, 2)\np = head(h).softmax(-1).argmax(1)"),
        Valid("x = torch.randn(4, 1)\nw = x.softmax(1)"),
        Valid("def f(x, n):\n    return nn.Linear(8, n)(x).softmax(-1)"),
        Valid("h, head = torch.randn(4, 16), nn.Linear(16, 1)\nbest = head(h).argmax(0)"),
        Valid("h, head = torch.randn(4, 16), nn.Linear(16, 1)\nbest, _ = head(h).max(1)"),
    ]
    INVALID = [
        Invalid(
            "h, score = torch.randn(4, 6, 16), nn.Linear(16, 1)\nw = F.softmax(score(torch.tanh(h)), dim=-1)",
            at=(2, 4, 2, 43),
        ),
        Invalid("net = nn.Sequential(nn.Linear(8, 1), nn.Softmax(dim=1))\np = net(torch.randn(4, 8))"),
        Invalid("h, head = torch.randn(4, 16), nn.Linear(16, 1)\npredicted = head(h).argmax(dim=1)"),
        Invalid("h, head = torch.randn(4, 16), nn.Linear(16, 1)\n_, predicted = torch.max(head(h), 1)"),
        Invalid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 1)

                def forward(self, x):
                    return self.fc(x)

            criterion = nn.CrossEntropyLoss()
            loss = criterion(Net()(torch.randn(4, 8)), torch.zeros(4, dtype=torch.long))
            """,
            at=(10, 17, 10, 41),
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        tensor = call.values[0] if call is not None and call.values else None
        made = maker(tensor) if isinstance(tensor, Tensor) else None
        if call is None or made is None or not isinstance(tensor, Tensor) or made.operation not in LOGITS:
            return
        if not _is_single(call, tensor) or (call.operation == "max" and not _takes_indices(node, ctx)):
            return
        given = call.operand("input") if call.operation == "cross_entropy" else None
        result = ctx.tensor(node)
        layer = layer_of(ctx, result.origin) if result is not None and result.origin is not None else None
        place = given or layer or node
        message = f"{call.operation} over the single output of {made.operation}: {_ALWAYS[call.operation]}"
        source = layer_of(ctx, made) or made.node
        told = source is place or source in walk(place) or place in walk(source)
        related = [] if told else [(f"{made.operation} gives one number per sample here", source)]
        yield ctx.finding(self, place, message, related=related)


def _takes_indices(node: ast.Call, ctx: Context) -> bool:
    """Say whether the second of what ``max`` gives is used: where the greatest stands."""
    match ctx.parent(node):
        case ast.Assign(targets=[ast.Tuple(elts=[_, ast.Name(id=name)])]):
            return name != "_"
        case ast.Subscript(slice=ast.Constant(value=1)) | ast.Attribute(attr="indices"):
            return True
        case _:
            return False


def _is_single(call: TorchCall, tensor: Tensor) -> bool:
    """Say whether the dimension of the classes is known to have one element."""
    shape = tensor.shape
    if shape is None:
        return call.constant("dim", None) == -1 and _is_single_output(tensor.origin)
    if len(shape) < 2 or shape[-1] != 1:
        return False
    if call.operation == "cross_entropy":
        return len(shape) == 2
    dim = call.constant("dim", None)
    return isinstance(dim, int) and not isinstance(dim, bool) and dim in (-1, len(shape) - 1)


def _is_single_output(origin: Origin | None) -> bool:
    """Say whether a linear layer with one output made a tensor, just now."""
    layer = origin.call.module if origin is not None and origin.operation == "linear" and origin.call else None
    return layer is not None and layer.arguments.get("out_features", 1) == Constant(1)
