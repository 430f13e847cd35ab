"""Rule DG307: logits passed to binary cross-entropy."""

from __future__ import annotations

from drygrad.model import Invalid, Valid
from drygrad.static.rules.loss.asking import Asked, DomainRule, with_logits
from drygrad.static.rules.loss.domains import LOGARITHMS
from drygrad.static.rules.loss.origins import LOGITS

_MESSAGE = "{reader} raises for values outside [0, 1]; {what}"


class LogitsIntoBce(DomainRule):
    """
    ## What it does
    Finds the output of a linear layer or a convolution, or the `tanh` or `log_softmax` of one, passed to
    `binary_cross_entropy`.

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
    asked = (
        Asked("binary_cross_entropy", LOGITS, _MESSAGE, with_logits),
        Asked(
            "binary_cross_entropy", frozenset({"tanh", "hardtanh", "softsign"}), _MESSAGE, before=LOGITS, there=False
        ),
        Asked("binary_cross_entropy", LOGARITHMS, _MESSAGE, there=False),
    )
    VALID = [
        Valid("def f(x, w, y):\n    return F.binary_cross_entropy_with_logits(F.linear(x, w), y)"),
        Valid("def f(model, x, y):\n    return F.binary_cross_entropy(model(x), y)"),
        Valid("def f(x, w, y):\n    return F.binary_cross_entropy(F.linear(x, w).clamp(0, 1), y)"),
        Valid("def f(x, y):\n    # a tanh of what is never negative\n    return F.binary_cross_entropy(x.tanh(), y)"),
        Valid("def f(x, w, y):\n    return F.binary_cross_entropy((F.linear(x, w).tanh() + 1) / 2, y)"),
        Valid(
            "net = nn.Sequential(nn.Linear(4, 1), nn.Hardsigmoid())\ndef f(x, y):\n    return nn.BCELoss()(net(x), y)"
        ),
    ]
    INVALID = [
        Invalid("def f(x, w, y):\n    return F.binary_cross_entropy(torch.tanh(F.linear(x, w)), y)", at=(2, 34, 2, 60)),
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
