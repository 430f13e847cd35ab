"""Rule DG307: logits passed to binary cross-entropy."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.rules.loss.activations import applied, loss_renamed, related
from drygrad.static.rules.loss.origins import LOGITS


class LogitsIntoBce(Rule):
    """
    ## What it does
    Finds the output of a linear layer or a convolution passed to `binary_cross_entropy`.

    ## Why is this bad?
    `binary_cross_entropy` needs probabilities. A layer returns arbitrary numbers; the first one below 0 or above 1
    raises "all elements of input should be between 0 and 1" on the CPU, and on CUDA triggers a device-side assert that
    makes the process unusable.

    ## Example
    ```python
    loss = F.binary_cross_entropy(F.linear(x, weight), target)
    ```
    Use instead:
    ```python
    loss = F.binary_cross_entropy_with_logits(F.linear(x, weight), target)
    ```

    ## Fix safety
    Unsafe: outputs that happened to lie between 0 and 1 are now treated as logits.
    """

    code, name, since = "DG307", "logits-into-bce", "0.1"
    severity = "error"
    calls = frozenset({"binary_cross_entropy"})
    VALID = [
        Valid("def f(x, w, y):\n    return F.binary_cross_entropy_with_logits(F.linear(x, w), y)"),
        Valid("def f(model, x, y):\n    return F.binary_cross_entropy(model(x), y)"),
        Valid("def f(x, w, y):\n    return F.binary_cross_entropy(F.linear(x, w).clamp(0, 1), y)"),
        Valid(
            "net = nn.Sequential(nn.Linear(4, 1), nn.Hardsigmoid())\ndef f(x, y):\n    return nn.BCELoss()(net(x), y)"
        ),
    ]
    INVALID = [
        Invalid(
            "def f(x, w, y):\n    return F.binary_cross_entropy(F.linear(x, w).squeeze(1), y)",
            "def f(x, w, y):\n    return F.binary_cross_entropy_with_logits(F.linear(x, w).squeeze(1), y)",
            at=(2, 34, 2, 59),
        ),
        Invalid(
            """
            class Classifier(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc1 = nn.Linear(30, 16)
                    self.fc2 = nn.Linear(16, 1)

                def forward(self, x):
                    x = F.relu(self.fc1(x))
                    return self.fc2(x)

            def train(loader):
                model = Classifier()
                criterion = nn.BCELoss()
                for x, y in loader:
                    loss = criterion(model(x), y)
                    loss.backward()
            """,
            """
            class Classifier(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc1 = nn.Linear(30, 16)
                    self.fc2 = nn.Linear(16, 1)

                def forward(self, x):
                    x = F.relu(self.fc1(x))
                    return self.fc2(x)

            def train(loader):
                model = Classifier()
                criterion = nn.BCEWithLogitsLoss()
                for x, y in loader:
                    loss = criterion(model(x), y)
                    loss.backward()
            """,
        ),
        Invalid(
            """
            discriminator = nn.Sequential(nn.Linear(784, 256), nn.LeakyReLU(0.2), nn.Linear(256, 1))
            bce = nn.BCELoss()
            real = discriminator(torch.rand(16, 784))
            fake = discriminator(torch.rand(16, 784))
            loss = bce(real, torch.ones(16, 1)) + bce(fake, torch.zeros(16, 1))
            """,
            count=2,
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        given = call.operand("input") if call else None
        origin = applied(ctx, call, LOGITS) if call else None
        if call is None or given is None or origin is None:
            return
        renamed = loss_renamed(ctx, call, "binary_cross_entropy_with_logits", "BCEWithLogitsLoss")
        yield ctx.finding(
            self,
            given,
            f"binary_cross_entropy raises for values outside [0, 1]; here it gets the raw output of {origin.operation}",
            related=related(ctx, given, origin),
            fixes=[ctx.fix("Use `binary_cross_entropy_with_logits`", renamed)],
        )
