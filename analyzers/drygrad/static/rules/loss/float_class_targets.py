"""Rule DG309: class indices of a dtype that cross-entropy refuses."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import FLOATING, INTEGERS, Tensor, TorchCall
from drygrad.static.rules.loss.dtypes import cast

_ACCEPTED = frozenset({"int64", "uint8"})


class FloatClassTargets(Rule):
    """
    ## What it does
    Finds targets of `cross_entropy` and `nll_loss` that contain class indices as floats or small integers.

    ## Why is this bad?
    Class indices must be int64 (or uint8). Anything else raises "expected target dtype to be Long or Byte". Floats are
    only valid as probabilities, in a target with the shape of the input.

    ## Example
    ```python
    target = torch.tensor([0.0, 2.0, 1.0])
    loss = F.cross_entropy(torch.randn(3, 4), target)
    ```
    Use instead:
    ```python
    target = torch.tensor([0.0, 2.0, 1.0])
    loss = F.cross_entropy(torch.randn(3, 4), target.long())
    ```

    ## Fix safety
    Unsafe: fractions are truncated.
    """

    code, name, since = "DG309", "float-class-targets", "0.1"
    severity = "error"
    calls = frozenset({"cross_entropy", "nll_loss"})
    VALID = [
        Valid("loss = F.cross_entropy(torch.randn(3, 4), torch.tensor([0, 2, 1]))"),
        Valid("loss = F.cross_entropy(torch.randn(3, 4), torch.rand(3, 4))"),
        Valid("# one sample, its target probabilities\nloss = F.cross_entropy(torch.randn(4), torch.rand(4))"),
        Valid("def f(model, x, y):\n    return F.cross_entropy(model(x), y.float())"),
        Valid("loss = F.nll_loss(torch.randn(3, 4).log_softmax(1), torch.zeros(3, dtype=torch.uint8))"),
        Valid("def f(x, n):\n    y = x.new_zeros(n)\n    return F.cross_entropy(x, F.one_hot(y.long(), 4).float())"),
    ]
    INVALID = [
        Invalid(
            "loss = F.cross_entropy(torch.randn(3, 4), torch.tensor([0.0, 2.0, 1.0]))",
            "loss = F.cross_entropy(torch.randn(3, 4), torch.tensor([0.0, 2.0, 1.0]).long())",
            at=(1, 42, 1, 71),
        ),
        Invalid(
            "def f(x, y: torch.Tensor):\n    return nn.NLLLoss()(F.log_softmax(x, 1), y.float())",
            "def f(x, y: torch.Tensor):\n    return nn.NLLLoss()(F.log_softmax(x, 1), y.long())",
        ),
        Invalid(
            """
            from torch.utils.data import DataLoader, TensorDataset

            X, y = torch.randn(150, 4), torch.zeros(150)
            model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
            criterion = nn.CrossEntropyLoss()
            for inputs, labels in DataLoader(TensorDataset(X, y), batch_size=10, shuffle=True):
                loss = criterion(model(inputs), labels)
                loss.backward()
            """,
            """
            from torch.utils.data import DataLoader, TensorDataset

            X, y = torch.randn(150, 4), torch.zeros(150)
            model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
            criterion = nn.CrossEntropyLoss()
            for inputs, labels in DataLoader(TensorDataset(X, y), batch_size=10, shuffle=True):
                loss = criterion(model(inputs), labels.long())
                loss.backward()
            """,
        ),
        Invalid(
            "loss = F.cross_entropy(torch.randn(2, 5, 8, 8), torch.zeros(2, 8, 8, dtype=torch.int32))",
            "loss = F.cross_entropy(torch.randn(2, 5, 8, 8), torch.zeros(2, 8, 8, dtype=torch.int32).long())",
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        expression = call.operand("target") if call else None
        target = ctx.tensor(expression)
        if call is None or expression is None or target is None or not _is_refused(ctx, call, target):
            return
        yield ctx.finding(
            self,
            expression,
            f"{call.operation} raises for class indices that are not int64; here they are {target.dtype}",
            fixes=[cast(ctx, expression, "long")],
        )


def _is_refused(ctx: Context, call: TorchCall, target: Tensor) -> bool:
    """Say whether the target holds class indices for certain, and of a dtype that raises."""
    if target.dtype is None or target.dtype in _ACCEPTED:
        return False
    if target.dtype not in FLOATING:
        return target.dtype in INTEGERS or target.dtype == "bool"
    given = ctx.tensor(call.operand("input"))
    if call.operation == "nll_loss":
        return True
    if given is None or given.shape is None or target.shape is None:
        return False
    return len(target.shape) == len(given.shape) - 1
