"""Rule DG748: a loss class given the tensors that its instance takes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Constant, Reference, Tensor

_WEIGHT_FIRST = frozenset({
    "CrossEntropyLoss", "NLLLoss", "BCELoss", "BCEWithLogitsLoss", "MultiLabelSoftMarginLoss",
})  # fmt: skip
"""Classes whose constructor takes a tensor first: the weight of each class."""
_OTHERS = frozenset({
    "L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss", "KLDivLoss", "PoissonNLLLoss", "GaussianNLLLoss",
    "HingeEmbeddingLoss", "CosineEmbeddingLoss", "MarginRankingLoss", "TripletMarginLoss", "SoftMarginLoss",
    "MultiLabelMarginLoss", "CTCLoss",
})  # fmt: skip


class LossCalledAsConstructor(Rule):
    """
    ## What it does
    Finds `nn.MSELoss(prediction, target)`: the tensors are passed to the constructor of the loss.

    ## Why is this bad?
    The call creates a loss module and takes the tensors as options. Usually it raises "Boolean value of Tensor with
    more than one value is ambiguous" right away, otherwise when `backward` is called on the module.

    ## Example
    ```python
    prediction = torch.randn(8, 1)
    loss = nn.MSELoss(prediction, target)
    ```
    Use instead:
    ```python
    prediction = torch.randn(8, 1)
    loss = nn.MSELoss()(prediction, target)
    ```

    ## Fix safety
    Safe: the old code raised, or its result was not a loss.
    """

    code, name, since = "DG748", "loss-called-as-constructor", "0.1"
    severity = "error"
    VALID = [
        Valid("loss = nn.MSELoss()(torch.ones(3), torch.zeros(3))"),
        Valid(
            "criterion = nn.CrossEntropyLoss(torch.tensor([1.0, 2.0]))\n"
            "other = nn.CrossEntropyLoss(torch.ones(3), False)"
        ),
        Valid("criterion = nn.BCEWithLogitsLoss(pos_weight=torch.ones(3))"),
        Valid("def make(weight, average):\n    return nn.NLLLoss(weight, average)"),
        Valid("def f(x, y):\n    return F.mse_loss(x.exp(), y.exp())"),
    ]
    INVALID = [
        Invalid(
            "def f(x, y):\n    return nn.MSELoss(x.exp(), y)",
            "def f(x, y):\n    return nn.MSELoss()(x.exp(), y)",
            at=(2, 11, 2, 21),
        ),
        Invalid(
            """
            def train(model, loader, optimizer):
                for images, labels in loader:
                    optimizer.zero_grad()
                    loss = nn.CrossEntropyLoss(model(images), labels)
                    loss.backward()
                    optimizer.step()
            """,
            """
            def train(model, loader, optimizer):
                for images, labels in loader:
                    optimizer.zero_grad()
                    loss = nn.CrossEntropyLoss()(model(images), labels)
                    loss.backward()
                    optimizer.step()
            """,
        ),
        Invalid(
            """
            from torch.nn import SmoothL1Loss
            import torch

            def f(x, y):
                return SmoothL1Loss(torch.sigmoid(x), y.detach(), reduction="sum")
            """,
            """
            from torch.nn import SmoothL1Loss
            import torch

            def f(x, y):
                return SmoothL1Loss(reduction="sum")(torch.sigmoid(x), y.detach())
            """,
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        made = ctx.value(node.func)
        if not isinstance(made, Reference) or len(node.args) < 2:
            return
        package, _, name = made.name.rpartition(".")
        if package != "torch.nn" or name not in _WEIGHT_FIRST | _OTHERS or not _gets_data(node, name, ctx):
            return
        yield ctx.finding(
            self,
            node.func,
            f"`{name}(input, target)` creates a loss module with the tensors as options; call an instance: "
            f"`{name}()(input, target)`",
            fixes=[_fix(node, ctx)],
        )


def _gets_data(node: ast.Call, name: str, ctx: Context) -> bool:
    """Say whether a tensor stands where the constructor takes an option, or the result is used as a loss."""
    options = node.args[1:] if name in _WEIGHT_FIRST else node.args
    if any(isinstance(argument, ast.Starred) or isinstance(ctx.value(argument), Constant) for argument in node.args):
        return False
    return any(isinstance(ctx.value(option), Tensor) for option in options) or _runs_backward(node, ctx)


def _runs_backward(node: ast.Call, ctx: Context) -> bool:
    """Say whether ``backward`` is called on the result, at once or by the name it is given."""
    match ctx.parent(node):
        case ast.Attribute(attr="backward"):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]):
            scope = ctx.function(node) or ctx.tree
            return any(
                isinstance(n, ast.Attribute)
                and n.attr == "backward"
                and isinstance(n.value, ast.Name)
                and n.value.id == name
                for n in ast.walk(scope)
            )
        case _:
            return False


def _fix(node: ast.Call, ctx: Context) -> Fix | None:
    if not node.keywords:
        return ctx.fix("Call an instance", ctx.insert_after(node.func, "()"), safety="safe")
    text = ctx.source_of(node)
    if "#" in text or "\n" in text:
        return None
    options, tensors = (", ".join(map(ctx.source_of, part)) for part in (node.keywords, node.args))
    return ctx.fix(
        "Call an instance", ctx.replace(node, f"{ctx.source_of(node.func)}({options})({tensors})"), safety="safe"
    )
