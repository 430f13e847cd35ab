"""Rule DG310: integer targets for binary cross-entropy."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.rules.loss.dtypes import OF_LABELS, told


class IntegerTargetsForBce(Rule):
    """
    ## What it does
    Finds targets of `binary_cross_entropy` and `binary_cross_entropy_with_logits` that are integers or bools.

    ## Why is this bad?
    Both need the target as a float probability. Integers raise "result type Float can't be cast to the desired output
    type Long" or "Found dtype Long but expected Float"; bools raise as well.

    ## Example
    ```python
    target = torch.randint(0, 2, (8,))
    loss = F.binary_cross_entropy_with_logits(torch.randn(8), target)
    ```
    Use instead:
    ```python
    target = torch.randint(0, 2, (8,))
    loss = F.binary_cross_entropy_with_logits(torch.randn(8), target.float())
    ```

    ## Fix safety
    Unsafe: it assumes that the integers are 0 and 1.
    """

    code, name, since = "DG310", "integer-targets-for-bce", "0.1"
    severity = "error"
    calls = OF_LABELS
    VALID = [
        Valid("loss = F.binary_cross_entropy_with_logits(torch.randn(8), torch.ones(8))"),
        Valid("loss = F.binary_cross_entropy(torch.rand(8), torch.randint(0, 2, (8,)).float())"),
        Valid("def f(x, y):\n    return F.binary_cross_entropy_with_logits(x, y)"),
        Valid("def f(x, y):\n    return F.binary_cross_entropy_with_logits(x, torch.randint(0, 2, (8,)).type_as(x))"),
        Valid(
            """
            def loss(model, x, masks):
                criterion = nn.CrossEntropyLoss() if model.n_classes > 1 else nn.BCEWithLogitsLoss()
                if model.n_classes > 1:
                    return criterion(model(x), masks.long())
                return criterion(model(x).squeeze(1), masks.float())
            """
        ),
        Valid("# a mean squared error takes integers\nloss = F.mse_loss(torch.randn(8), torch.randint(0, 2, (8,)))"),
    ]
    INVALID = [
        Invalid(
            "loss = F.binary_cross_entropy_with_logits(torch.randn(8), torch.randint(0, 2, (8,)))",
            "loss = F.binary_cross_entropy_with_logits(torch.randn(8), torch.randint(0, 2, (8,)).float())",
            at=(1, 58, 1, 83),
        ),
        Invalid(
            "def f(p: torch.Tensor, y: torch.Tensor):\n    return nn.BCELoss()(p.double(), y > 0.5)",
            "def f(p: torch.Tensor, y: torch.Tensor):\n    return nn.BCELoss()(p.double(), (y > 0.5).double())",
        ),
        Invalid(
            """
            def train(model, loader):
                criterion = nn.BCEWithLogitsLoss()
                for images, labels in torch.utils.data.DataLoader(loader):
                    images, labels = images.cuda(), labels.cuda().long()
                    loss = criterion(model(images).squeeze(1), labels)
                    loss.backward()
            """,
            """
            def train(model, loader):
                criterion = nn.BCEWithLogitsLoss()
                for images, labels in torch.utils.data.DataLoader(loader):
                    images, labels = images.cuda(), labels.cuda().long()
                    loss = criterion(model(images).squeeze(1), labels.float())
                    loss.backward()
            """,
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        yield from told(self, node, ctx)
