"""Rule DG304: softmax before cross-entropy."""

from __future__ import annotations

from drygrad.model import Invalid, Valid
from drygrad.static.rules.loss.asking import Asked, DomainRule, without


class SoftmaxBeforeCrossEntropy(DomainRule):
    """
    ## What it does
    Finds probabilities (the result of `softmax`) passed to `cross_entropy`. A dry run also finds probabilities that
    were computed in any other way.

    ## Why is this bad?
    `cross_entropy` applies `log_softmax` itself. Probabilities lie between 0 and 1, so as logits they hardly differ: a
    confident mistake gets a gradient near zero, and the model learns slowly or not at all, without an error.

    ## Example
    ```python
    loss = F.cross_entropy(logits.softmax(dim=-1), target)
    ```
    Use instead:
    ```python
    loss = F.cross_entropy(logits, target)
    ```

    ## Fix safety
    Unsafe: it changes the loss and, for a model that ends in a softmax, what it returns. If other code reads the
    probabilities, they stay, and the loss gets the logits or the logarithm of the probabilities.
    """

    code, name, since = "DG304", "softmax-before-cross-entropy", "0.1"
    severity = "warning"
    asked = (
        Asked("cross_entropy", frozenset({"softmax"}), "cross_entropy applies log_softmax itself; {what}", without),
    )
    VALID = [
        Valid("def f(x, y):\n    return F.cross_entropy(x, y)"),
        Valid(
            "def f(x, y):\n    # a second log_softmax changes nothing\n"
            "    return F.cross_entropy(F.log_softmax(x, 1), y)"
        ),
        Valid("def f(x, y):\n    p = x.softmax(-1)\n    return F.nll_loss((p + 1e-6).log(), y), F.cross_entropy(x, y)"),
        Valid("def f(x, y, t):\n    return F.cross_entropy(x, y.softmax(-1)), F.cross_entropy(x.softmax(-1) / t, y)"),
        Valid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(8, 3)

                def forward(self, x):
                    x = self.fc(x)
                    if not self.training:
                        x = x.softmax(dim=-1)
                    return x

            def loss(batch, target):
                return nn.CrossEntropyLoss()(Net()(batch), target)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            def episode_loss(similarities: torch.Tensor, support: torch.Tensor, y):
                onehot = F.one_hot(support, 5).float()
                preds = torch.softmax(similarities / 0.1, dim=1) @ onehot
                return F.cross_entropy(preds, y)
            """,
            at=(4, 27, 4, 32),
        ),
        Invalid(
            "def f(x, y):\n    return F.cross_entropy(x.softmax(-1), y)",
            "def f(x, y):\n    return F.cross_entropy(x, y)",
            at=(2, 27, 2, 40),
        ),
        Invalid(
            "def f(x, y):\n    p = torch.softmax(x, 1)\n    return nn.CrossEntropyLoss()(p, y)",
            "def f(x, y):\n    return nn.CrossEntropyLoss()(x, y)",
            at=(3, 33, 3, 34),
        ),
        Invalid(
            """
            def step(model, x, y):
                logits = model(x)
                probabilities = F.softmax(logits, dim=1)
                loss = F.cross_entropy(probabilities, y)
                return loss, probabilities.max(dim=1)
            """,
            """
            def step(model, x, y):
                logits = model(x)
                probabilities = F.softmax(logits, dim=1)
                loss = F.cross_entropy(logits, y)
                return loss, probabilities.max(dim=1)
            """,
        ),
        Invalid(
            """
            model = nn.Sequential(
                nn.Flatten(),
                nn.Linear(784, 10),
                nn.Softmax(dim=1),
            )
            criterion = nn.CrossEntropyLoss()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in torch.utils.data.DataLoader(data):
                optimizer.zero_grad()
                loss = criterion(model(images), labels)
                loss.backward()
                optimizer.step()
            """,
            """
            model = nn.Sequential(
                nn.Flatten(),
                nn.Linear(784, 10),
            )
            criterion = nn.CrossEntropyLoss()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for images, labels in torch.utils.data.DataLoader(data):
                optimizer.zero_grad()
                loss = criterion(model(images), labels)
                loss.backward()
                optimizer.step()
            """,
        ),
        Invalid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.hidden = nn.Linear(20, 64)
                    self.out = nn.Linear(64, 3)
                    self.softmax = nn.Softmax(dim=1)

                def forward(self, x):
                    x = torch.relu(self.hidden(x))
                    return self.softmax(self.out(x))

            def train(loader):
                model = Net()
                criterion = nn.CrossEntropyLoss()
                for x, y in loader:
                    scores = model(x)
                    loss = criterion(scores, y)
                    loss.backward()
            """,
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.hidden = nn.Linear(20, 64)
                    self.out = nn.Linear(64, 3)
                    self.softmax = nn.Softmax(dim=1)

                def forward(self, x):
                    x = torch.relu(self.hidden(x))
                    return self.out(x)

            def train(loader):
                model = Net()
                criterion = nn.CrossEntropyLoss()
                for x, y in loader:
                    scores = model(x)
                    loss = criterion(scores, y)
                    loss.backward()
            """,
            at=(10, 15, 10, 40),
        ),
        Invalid(
            """
            def predict(x: torch.Tensor):
                return F.softmax(x, dim=1)

            def step(x: torch.Tensor, y):
                probabilities = predict(x)
                entropy = -(probabilities * (probabilities + 1e-8).log()).sum(1).mean()
                return F.cross_entropy(probabilities, y) - 0.01 * entropy
            """,
            """
            def predict(x: torch.Tensor):
                return F.softmax(x, dim=1)

            def step(x: torch.Tensor, y):
                probabilities = predict(x)
                entropy = -(probabilities * (probabilities + 1e-8).log()).sum(1).mean()
                return F.cross_entropy(probabilities.clamp(min=1e-8).log(), y) - 0.01 * entropy
            """,
        ),
    ]
