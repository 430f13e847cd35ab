"""Rule DG305: sigmoid before binary cross-entropy with logits."""

from __future__ import annotations

from drygrad.model import Invalid, Valid
from drygrad.static.rules.loss.asking import Asked, DomainRule, without


class SigmoidBeforeBceWithLogits(DomainRule):
    """
    ## What it does
    Finds probabilities (the result of `sigmoid`) passed to `binary_cross_entropy_with_logits`.

    ## Why is this bad?
    The loss applies `sigmoid` itself. It maps values between 0 and 1 to probabilities between 0.5 and 0.73, so no
    example can be rated negative with confidence; where the first sigmoid saturates, the gradient is zero. Nothing
    raises.

    ## Example
    ```python
    loss = F.binary_cross_entropy_with_logits(torch.sigmoid(logits), target)
    ```
    Use instead:
    ```python
    loss = F.binary_cross_entropy_with_logits(logits, target)
    ```

    ## Fix safety
    Unsafe: it changes the loss and, for a model that ends in a sigmoid, what it returns. If other code reads the
    probabilities, they stay: the loss gets the logits under a new name, or `logit` recovers them.
    """

    code, name, since = "DG305", "sigmoid-before-bce-with-logits", "0.1"
    severity = "warning"
    asked = (
        Asked(
            "binary_cross_entropy_with_logits",
            frozenset({"sigmoid"}),
            "{reader} applies sigmoid itself; {what}",
            without,
        ),
    )
    VALID = [
        Valid("def f(x, y):\n    return F.binary_cross_entropy_with_logits(x, y)"),
        Valid("def f(x, y):\n    p = x.sigmoid()\n    return F.binary_cross_entropy_with_logits(x, y), p.round()"),
        Valid(
            "def f(x, y):\n    # distillation: the target is what another model believes\n"
            "    return F.binary_cross_entropy_with_logits(x, torch.sigmoid(y))"
        ),
        Valid("def f(x, y):\n    return F.binary_cross_entropy_with_logits(torch.logit(x.sigmoid()), y)"),
    ]
    INVALID = [
        Invalid(
            "def f(x, y):\n    return F.binary_cross_entropy_with_logits(torch.sigmoid(x + 1), y)",
            "def f(x, y):\n    return F.binary_cross_entropy_with_logits(x + 1, y)",
            at=(2, 46, 2, 66),
        ),
        Invalid(
            "def f(x, y):\n    return nn.BCEWithLogitsLoss()(torch.sigmoid(x + 1).squeeze(1), y)",
            "def f(x, y):\n    return nn.BCEWithLogitsLoss()((x + 1).squeeze(1), y)",
        ),
        Invalid(
            """
            class Critic(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1), nn.Sigmoid())

                def forward(self, x):
                    return self.net(x)

            class Trainer:
                def __init__(self):
                    self.critic = Critic()
                    self.loss = nn.BCEWithLogitsLoss()

                def step(self, real, labels):
                    return self.loss(self.critic(real), labels)
            """,
            """
            class Critic(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))

                def forward(self, x):
                    return self.net(x)

            class Trainer:
                def __init__(self):
                    self.critic = Critic()
                    self.loss = nn.BCEWithLogitsLoss()

                def step(self, real, labels):
                    return self.loss(self.critic(real), labels)
            """,
        ),
        Invalid(
            """
            def train(model, batches):
                criterion = nn.BCEWithLogitsLoss()
                for x, y in batches:
                    output = torch.sigmoid(model(x))
                    loss = criterion(output, y)
                    loss.backward()
                    correct = ((output > 0.5) == y).sum()
            """,
            """
            def train(model, batches):
                criterion = nn.BCEWithLogitsLoss()
                for x, y in batches:
                    logits = model(x)
                    output = torch.sigmoid(logits)
                    loss = criterion(logits, y)
                    loss.backward()
                    correct = ((output > 0.5) == y).sum()
            """,
        ),
        Invalid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.out = nn.Conv2d(8, 1, 1)

                def forward(self, x):
                    return torch.sigmoid(self.out(x))

            def dice(prob, mask):
                return 1 - 2 * (prob * mask).sum() / (prob.sum() + mask.sum() + 1e-6)

            def step(x, mask):
                prob = Net()(x)
                return F.binary_cross_entropy_with_logits(prob, mask) + dice(prob, mask)
            """,
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.out = nn.Conv2d(8, 1, 1)

                def forward(self, x):
                    return torch.sigmoid(self.out(x))

            def dice(prob, mask):
                return 1 - 2 * (prob * mask).sum() / (prob.sum() + mask.sum() + 1e-6)

            def step(x, mask):
                prob = Net()(x)
                return F.binary_cross_entropy_with_logits(prob.logit(eps=1e-6), mask) + dice(prob, mask)
            """,
        ),
    ]
