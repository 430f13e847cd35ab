"""Rule DG308: nll_loss of something else than log-probabilities."""

from __future__ import annotations

import ast

from drygrad.model import Fix, Invalid, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Origin, TorchCall
from drygrad.static.rules.loss.activations import loss_renamed
from drygrad.static.rules.loss.asking import Asked, DomainRule, as_logarithm
from drygrad.static.rules.loss.origins import LOGITS

_MESSAGE = "nll_loss expects log-probabilities; {what}, and the loss drops below 0"


def _cross_entropy(ctx: Context, call: TorchCall, given: ast.expr, origin: Origin) -> Fix | None:
    edit = loss_renamed(ctx, call, "cross_entropy", "CrossEntropyLoss")
    return ctx.fix("Use `cross_entropy`, which takes logits", edit)


class NllWithoutLogSoftmax(DomainRule):
    """
    ## What it does
    Finds `nll_loss` applied to probabilities (the result of `softmax`) or to the raw output of a layer.

    ## Why is this bad?
    `nll_loss` does not take a logarithm: it only picks the entry of the target class and negates it. With probabilities
    the loss is between -1 and 0 and its gradient vanishes for confident mistakes; with raw outputs it falls without
    bound while the model learns nothing about the other classes. Neither raises.

    ## Example
    ```python
    loss = F.nll_loss(F.softmax(logits, dim=1), target)
    ```
    Use instead:
    ```python
    loss = F.nll_loss(F.log_softmax(logits, dim=1), target)
    ```

    ## Fix safety
    Unsafe: it changes the value of the loss.
    """

    code, name, since = "DG308", "nll-without-log-softmax", "0.1"
    severity = "warning"
    asked = (
        Asked("nll_loss", frozenset({"softmax"}), _MESSAGE, as_logarithm),
        Asked("nll_loss", LOGITS, _MESSAGE, _cross_entropy),
    )
    VALID = [
        Valid("def f(x, y):\n    return F.nll_loss(F.log_softmax(x, dim=1), y)"),
        Valid("def f(x, y):\n    p = F.softmax(x, dim=1)\n    return F.nll_loss(torch.log(p + 1e-8), y)"),
        Valid("def f(model, x, y):\n    return F.nll_loss(model(x), y)"),
        Valid(
            "net = nn.Sequential(nn.Linear(4, 3), nn.LogSoftmax(dim=1))\n"
            "def f(x, y):\n    return nn.NLLLoss()(net(x), y)"
        ),
        Valid("def f(x, y):\n    p = x.softmax(1)\n    return F.nll_loss((p + 1e-6).log(), y), p"),
    ]
    INVALID = [
        Invalid(
            "def f(x, y):\n    return F.nll_loss(x.softmax(dim=1), y)",
            "def f(x, y):\n    return F.nll_loss(x.log_softmax(dim=1), y)",
            at=(2, 22, 2, 38),
        ),
        Invalid(
            """
            net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3), nn.Softmax(dim=1))
            criterion = nn.NLLLoss()
            loss = criterion(net(torch.rand(8, 4)), torch.randint(0, 3, (8,)))
            """,
            """
            net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3), nn.LogSoftmax(dim=1))
            criterion = nn.NLLLoss()
            loss = criterion(net(torch.rand(8, 4)), torch.randint(0, 3, (8,)))
            """,
        ),
        Invalid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.conv = nn.Conv2d(1, 8, 3)
                    self.fc = nn.Linear(8 * 26 * 26, 10)

                def forward(self, x):
                    x = torch.relu(self.conv(x))
                    return self.fc(x.flatten(1))

            def train(model: Net, device, loader, optimizer):
                model.train()
                for data, target in loader:
                    data, target = data.to(device), target.to(device)
                    optimizer.zero_grad()
                    output = model(data)
                    loss = F.nll_loss(output, target)
                    loss.backward()
                    optimizer.step()
            """,
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.conv = nn.Conv2d(1, 8, 3)
                    self.fc = nn.Linear(8 * 26 * 26, 10)

                def forward(self, x):
                    x = torch.relu(self.conv(x))
                    return self.fc(x.flatten(1))

            def train(model: Net, device, loader, optimizer):
                model.train()
                for data, target in loader:
                    data, target = data.to(device), target.to(device)
                    optimizer.zero_grad()
                    output = model(data)
                    loss = F.cross_entropy(output, target)
                    loss.backward()
                    optimizer.step()
            """,
        ),
    ]
