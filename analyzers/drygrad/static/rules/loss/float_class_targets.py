"""Rule DG309: class indices of a dtype that cross-entropy refuses."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.rules.loss.dtypes import OF_CLASSES, told


class FloatClassTargets(Rule):
    """
    ## What it does
    Finds targets of `cross_entropy` and `nll_loss` that contain class indices as floats or small integers, or the
    integers of `one_hot`.

    ## Why is this bad?
    Class indices must be int64 (or uint8). Anything else raises "expected target dtype to be Long or Byte". A target
    with the shape of the input contains probabilities, which must be floats: `one_hot` returns int64, and
    `cross_entropy` raises "Expected floating point type for target with class probabilities". `nll_loss` takes no
    probabilities at all.

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
    calls = OF_CLASSES
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
            "def f(net, x, y):\n    target = F.one_hot(y, 5)\n    return F.cross_entropy(net(x), target)",
            "def f(net, x, y):\n    target = F.one_hot(y, 5)\n    return F.cross_entropy(net(x), target.float())",
        ),
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
        yield from told(self, node, ctx)
