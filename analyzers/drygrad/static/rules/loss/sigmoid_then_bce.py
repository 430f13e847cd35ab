"""Rule DG306: sigmoid, then binary cross-entropy, in two steps."""

from __future__ import annotations

from drygrad.model import Invalid, Valid
from drygrad.static.rules.loss.asking import Asked, DomainRule, with_logits

_MESSAGE = "{reader} has no gradient where sigmoid rounds to 0 or 1; {reader}_with_logits computes both safely"


class SigmoidThenBce(DomainRule):
    """
    ## What it does
    Finds `binary_cross_entropy` applied to the result of `sigmoid` in the same function.

    ## Why is this bad?
    In float32 `sigmoid(x)` is exactly 1 from about x = 17. For such a wrong prediction the loss is clamped to 100 and
    the gradient is 0, so the model cannot correct its most confident mistakes. `binary_cross_entropy_with_logits`
    computes the same loss from the logits without losing precision. Under CUDA autocast, `binary_cross_entropy` raises.

    ## Example
    ```python
    loss = F.binary_cross_entropy(torch.sigmoid(logits), target)
    ```
    Use instead:
    ```python
    loss = F.binary_cross_entropy_with_logits(logits, target)
    ```

    ## Fix safety
    Unsafe: the loss changes where the sigmoid saturated.
    """

    code, name, since = "DG306", "sigmoid-then-bce", "0.1"
    severity = "hint"
    asked = (Asked("binary_cross_entropy", frozenset({"sigmoid"}), _MESSAGE, with_logits, direct=True, there=False),)
    VALID = [
        Valid("def f(x, y):\n    return F.binary_cross_entropy_with_logits(x, y)"),
        Valid("def f(p, y):\n    return F.binary_cross_entropy(p, y)"),
        Valid("def f(x, y):\n    return F.binary_cross_entropy(x.sigmoid().clamp(1e-6, 1 - 1e-6), y)"),
        Valid("def f(a, b, y):\n    return F.binary_cross_entropy(a.sigmoid() * b.sigmoid(), y)"),
        Valid("def f(x, y):\n    return F.binary_cross_entropy(x.softmax(1)[:, 1], y)"),
    ]
    INVALID = [
        Invalid(
            "def f(x, y):\n    return F.binary_cross_entropy(x.sigmoid(), y)",
            "def f(x, y):\n    return F.binary_cross_entropy_with_logits(x, y)",
            at=(2, 34, 2, 45),
        ),
        Invalid(
            """
            criterion = nn.BCELoss()

            def step(model, x, y):
                out = torch.sigmoid(model(x))
                return criterion(out, y)
            """,
            """
            criterion = nn.BCEWithLogitsLoss()

            def step(model, x, y):
                out = model(x)
                return criterion(out, y)
            """,
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
                    x = torch.sigmoid(self.fc2(x))
                    return x

            model = Classifier()
            criterion = nn.BCELoss()
            optimizer = torch.optim.Adam(model.parameters())
            for epoch in range(10):
                optimizer.zero_grad()
                loss = criterion(model(torch.rand(64, 30)), torch.ones(64, 1))
                loss.backward()
                optimizer.step()
            """,
            at=(17, 21, 17, 46),
        ),
    ]
