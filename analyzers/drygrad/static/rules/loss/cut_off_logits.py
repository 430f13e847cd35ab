"""Rule DG328: logits that an activation or a dropout has cut off before the loss."""

from __future__ import annotations

from drygrad.model import Invalid, Valid
from drygrad.static.rules.loss.asking import Asked, DomainRule, without

_LOSSES = "cross_entropy binary_cross_entropy_with_logits"
_POSITIVE = frozenset({"relu", "relu6", "softplus"})
_BOUNDED = frozenset({"tanh", "hardtanh", "softsign", "hardsigmoid"})
_OF = "{reader} of the result of {made};"
_NEVER_NEGATIVE = f"{_OF} no logit can be negative, and units that are off get no gradient"
_SMALL = f"{_OF} the logits stay in a small interval, so no class can become likely"
_BETWEEN = f"{_OF} the logits lie between 0 and 1, so every class counts as likely"


class CutOffLogits(DomainRule):
    """
    ## What it does
    Finds `cross_entropy` on the result of `relu`, `sigmoid`, `tanh` or `dropout`; `binary_cross_entropy_with_logits` on
    that of `relu`, `tanh`, `softmax` or `dropout`; and `binary_cross_entropy` on a sigmoid of a `relu`. A dry run also
    finds `binary_cross_entropy` on a `softmax` where samples have several labels, or none.

    ## Why is this bad?
    Logits must be free to take any value. After a `relu` none is negative: `sigmoid(relu(x))` is never below one half,
    and inactive units have no gradient. With logits between 0 and 1 (`sigmoid`), no class out of ten can get more than
    23% of the probability. `dropout` sets logits to 0 at random, also that of the right class. The loss falls a little
    and stays there.

    ## Example
    ```python
    scores = torch.relu(self.out(hidden))
    loss = F.cross_entropy(scores, labels)
    ```
    Use instead:
    ```python
    scores = self.out(hidden)
    loss = F.cross_entropy(scores, labels)
    ```

    ## Fix safety
    Unsafe: it changes the loss and, for a model that ends in the activation, what it returns.
    """

    code, name, since = "DG328", "cut-off-logits", "0.1"
    severity = "warning"
    asked = (
        Asked(_LOSSES, _POSITIVE, _NEVER_NEGATIVE, without),
        Asked("binary_cross_entropy", _POSITIVE, _NEVER_NEGATIVE, without, then=frozenset({"sigmoid"})),
        Asked(_LOSSES, _BOUNDED, _SMALL, without),
        Asked("cross_entropy", frozenset({"sigmoid"}), _SMALL, without),
        Asked("binary_cross_entropy_with_logits", frozenset({"softmax"}), _BETWEEN, without),
        Asked(_LOSSES, frozenset({"dropout"}), f"{_OF} some logits are set to 0 before the loss", without),
    )
    VALID = [
        Valid("def f(x, y):\n    return F.cross_entropy(10 * torch.tanh(x), y)"),
        Valid("def f(x, y):\n    return F.cross_entropy(F.avg_pool2d(F.relu(x), 7).flatten(1), y)"),
        Valid("def f(x, y):\n    return F.cross_entropy(F.leaky_relu(x), y) + F.cross_entropy(F.gelu(x), y)"),
        Valid("def f(x: nn.Linear, h, y):\n    return F.cross_entropy(x(F.dropout(torch.relu(h))), y)"),
        Valid("def f(x, y):\n    return F.binary_cross_entropy(torch.sigmoid(x), y)"),
    ]
    INVALID = [
        Invalid(
            "def f(x, y):\n    return F.cross_entropy(torch.sigmoid(x), y)",
            "def f(x, y):\n    return F.cross_entropy(x, y)",
            at=(2, 27, 2, 43),
        ),
        Invalid(
            """
            model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), nn.Dropout(0.5))
            loss = nn.CrossEntropyLoss()(model(torch.randn(16, 8)), torch.randint(0, 4, (16,)))
            """,
            """
            model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
            loss = nn.CrossEntropyLoss()(model(torch.randn(16, 8)), torch.randint(0, 4, (16,)))
            """,
        ),
        Invalid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc1, self.fc2 = nn.Linear(20, 64), nn.Linear(64, 10)

                def forward(self, x):
                    x = F.relu(self.fc1(x))
                    return F.relu(self.fc2(x))

            def step(x, y):
                return F.cross_entropy(Net()(x), y)
            """,
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc1, self.fc2 = nn.Linear(20, 64), nn.Linear(64, 10)

                def forward(self, x):
                    x = F.relu(self.fc1(x))
                    return self.fc2(x)

            def step(x, y):
                return F.cross_entropy(Net()(x), y)
            """,
            at=(8, 15, 8, 34),
        ),
        Invalid(
            """
            net = nn.Sequential(nn.Linear(8, 1), nn.ReLU(), nn.Sigmoid())
            loss = nn.BCELoss()(net(torch.randn(4, 8)), torch.rand(4, 1))
            """,
            """
            net = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())
            loss = nn.BCELoss()(net(torch.randn(4, 8)), torch.rand(4, 1))
            """,
        ),
    ]
