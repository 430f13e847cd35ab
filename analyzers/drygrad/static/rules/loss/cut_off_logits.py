"""Rule DG328: logits that an activation or a dropout has cut off before the loss."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Origin, Tensor, TorchCall
from drygrad.static.rules.loss.activations import applied, blamed, logits_passed
from drygrad.static.rules.loss.origins import maker

_POSITIVE = frozenset({"relu", "relu6", "softplus"})
_BOUNDED = frozenset({"tanh", "hardtanh", "softsign", "hardsigmoid"})
_BEFORE = {
    "cross_entropy": _POSITIVE | _BOUNDED | {"sigmoid", "dropout"},
    "binary_cross_entropy_with_logits": _POSITIVE | _BOUNDED | {"softmax", "dropout"},
}
_WHY = {
    **dict.fromkeys(_POSITIVE, "no logit can be negative, and units that are off get no gradient"),
    **dict.fromkeys(_BOUNDED | {"sigmoid"}, "the logits stay in a small interval, so no class can become likely"),
    "dropout": "some logits are set to 0 before the loss",
    "softmax": "the logits lie between 0 and 1, so every class counts as likely",
}


class CutOffLogits(Rule):
    """
    ## What it does
    Finds `cross_entropy` on the result of `relu`, `sigmoid`, `tanh` or `dropout`; `binary_cross_entropy_with_logits` on
    that of `relu`, `tanh`, `softmax` or `dropout`; and `binary_cross_entropy` on a sigmoid of a `relu`. A dry run also
    finds `binary_cross_entropy` on a `softmax` where samples have several labels, or none.

    ## Why is this bad?
    Logits must be free to take any value. After a `relu` none is negative: `sigmoid(relu(x))` is never below one half,
    and inactive units have no gradient. With logits between 0 and 1 (`sigmoid`), no class out of ten can get more than
    23% of the probability. `dropout` on logits rules out classes at random. The loss falls a little and stays there.

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
    calls = frozenset({*_BEFORE, "binary_cross_entropy"})
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

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        given = call.operand("input") if call is not None else None
        origin = _cut(ctx, call) if call is not None else None
        if call is None or given is None or origin is None:
            return
        place, _, elsewhere = blamed(ctx, call.operation, given, origin)
        yield ctx.finding(
            self,
            place,
            f"{call.operation} of the result of {origin.operation}; {_WHY[origin.operation]}",
            related=elsewhere,
            fixes=[logits_passed(ctx, given, origin)],
        )


def _cut(ctx: Context, call: TorchCall) -> Origin | None:
    """Return the operation before a loss that cuts the logits off."""
    if call.operation != "binary_cross_entropy":
        return applied(ctx, call, _BEFORE[call.operation])
    squashed = applied(ctx, call, frozenset({"sigmoid"}))
    inner = squashed.operands[0] if squashed is not None and squashed.operands else None
    made = maker(inner) if isinstance(inner, Tensor) else None
    return made if made is not None and made.operation in _POSITIVE else None
