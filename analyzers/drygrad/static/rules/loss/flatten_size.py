"""Rule DG315: a linear layer that takes another number of features than were flattened."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.expected_errors import is_expected
from drygrad.static.facts.events import ShapeMismatch
from drygrad.static.rules.loss.shape_origins import Flattened, flattened
from drygrad.static.tree import walk


class FlattenSize(Rule):
    """
    ## What it does
    Finds linear layers after a `flatten` or `view` whose `in_features` is not the number of features that the
    convolutions before it produce, and a `view(-1, features)` that does not fit.

    ## Why is this bad?
    The first batch raises "mat1 and mat2 shapes cannot be multiplied". The number depends on the image size and on
    every kernel size, stride and padding before it; drygrad computes it.

    ## Example
    ```python
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Flatten(), nn.Linear(8 * 28 * 28, 10))
    out = net(torch.randn(4, 1, 28, 28))
    ```
    Use instead:
    ```python
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Flatten(), nn.Linear(8 * 26 * 26, 10))
    out = net(torch.randn(4, 1, 28, 28))
    ```

    ## Fix safety
    Unsafe: it changes the layer, although the image size may be what is wrong.
    """

    code, name, since = "DG315", "flatten-size", "0.1"
    severity = "error"
    VALID = [
        Valid(
            "net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Flatten(), nn.Linear(8 * 26 * 26, 10))\n"
            "net(torch.randn(4, 1, 28, 28))"
        ),
        Valid(
            "net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))\n"
            "net(torch.randn(4, 1, 28, 28))"
        ),
        Valid(
            "net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Flatten(), nn.LazyLinear(10))\nnet(torch.randn(4, 1, 28, 28))"
        ),
        Valid("def f(x):\n    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.Flatten(), nn.Linear(400, 10))(x)"),
    ]
    INVALID = [
        Invalid(
            "net = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))\nout = net(torch.randn(4, 3, 32, 32))",
            "net = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))\nout = net(torch.randn(4, 3, 32, 32))",
            at=(1, 34, 1, 52),
        ),
        Invalid("x = nn.Conv2d(3, 16, 3)(torch.randn(4, 3, 9, 9))\nrows = x.view(-1, 16 * 5 * 5)", at=(2, 7, 2, 29)),
        Invalid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.conv1 = nn.Conv2d(3, 6, 5)
                    self.pool = nn.MaxPool2d(2, 2)
                    self.conv2 = nn.Conv2d(6, 16, 5)
                    self.fc1 = nn.Linear(16 * 5 * 5, 120)
                    self.fc2 = nn.Linear(120, 10)

                def forward(self, x):
                    x = self.pool(F.relu(self.conv1(x)))
                    x = self.pool(F.relu(self.conv2(x)))
                    x = x.view(x.size(0), -1)
                    x = F.relu(self.fc1(x))
                    return self.fc2(x)

            model = Net()
            out = model(torch.randn(4, 3, 28, 28))
            """,
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.conv1 = nn.Conv2d(3, 6, 5)
                    self.pool = nn.MaxPool2d(2, 2)
                    self.conv2 = nn.Conv2d(6, 16, 5)
                    self.fc1 = nn.Linear(16 * 4 * 4, 120)
                    self.fc2 = nn.Linear(120, 10)

                def forward(self, x):
                    x = self.pool(F.relu(self.conv1(x)))
                    x = self.pool(F.relu(self.conv2(x)))
                    x = x.view(x.size(0), -1)
                    x = F.relu(self.fc1(x))
                    return self.fc2(x)

            model = Net()
            out = model(torch.randn(4, 3, 28, 28))
            """,
            at=(7, 19, 7, 45),
        ),
        Invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, TensorDataset

            class Vgg(nn.Module):
                def __init__(self, classes=10):
                    super().__init__()
                    self.features = nn.Sequential(
                        nn.Conv2d(3, 64, kernel_size=3, padding=1),
                        nn.BatchNorm2d(64),
                        nn.ReLU(inplace=True),
                        nn.MaxPool2d(kernel_size=2, stride=2),
                    )
                    self.classifier = nn.Sequential(
                        nn.Dropout(0.5),
                        nn.Linear(in_features=64 * 8 * 8, out_features=256),
                        nn.ReLU(inplace=True),
                        nn.Linear(256, classes),
                    )

                def forward(self, x):
                    x = self.features(x)
                    x = torch.flatten(x, 1)
                    return self.classifier(x)

            images, labels = torch.randn(100, 3, 32, 32), torch.randint(0, 10, (100,))
            model = Vgg()
            for x, y in DataLoader(TensorDataset(images, labels), batch_size=8, shuffle=True):
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
            """,
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, TensorDataset

            class Vgg(nn.Module):
                def __init__(self, classes=10):
                    super().__init__()
                    self.features = nn.Sequential(
                        nn.Conv2d(3, 64, kernel_size=3, padding=1),
                        nn.BatchNorm2d(64),
                        nn.ReLU(inplace=True),
                        nn.MaxPool2d(kernel_size=2, stride=2),
                    )
                    self.classifier = nn.Sequential(
                        nn.Dropout(0.5),
                        nn.Linear(in_features=64 * 16 * 16, out_features=256),
                        nn.ReLU(inplace=True),
                        nn.Linear(256, classes),
                    )

                def forward(self, x):
                    x = self.features(x)
                    x = torch.flatten(x, 1)
                    return self.classifier(x)

            images, labels = torch.randn(100, 3, 32, 32), torch.randint(0, 10, (100,))
            model = Vgg()
            for x, y in DataLoader(TensorDataset(images, labels), batch_size=8, shuffle=True):
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
            """,
        ),
    ]

    def visit_mismatch(self, event: ShapeMismatch, ctx: Context) -> Iterator[Finding]:
        rows = flattened(event)
        if rows is None or is_expected(event.node, ctx):
            return
        taken = _in_features(event)
        what = "view" if event.kind == "view" else "layer"
        number = ctx.source_of(taken) if taken is not None else "another number"
        module = event.call.module if event.call is not None else None
        made = module.node if what == "layer" and module is not None and taken is not None else None
        yield ctx.finding(
            self,
            made or event.node,
            f"the flattened input has {rows.features} features ({rows.product}), but the {what} expects {number}",
            related=[("the layer is called here", event.node)] if made is not None else [],
            fixes=[_fix(ctx, taken, rows)] if what == "layer" else [],
        )


def _in_features(event: ShapeMismatch) -> ast.expr | None:
    """Return the argument that the layer was constructed with, or the last one of the view."""
    if event.kind == "view":
        return event.call.operands[-1] if event.call is not None else None
    module = event.call.module if event.call is not None else None
    if module is None or not isinstance(module.node, ast.Call):
        return None
    given = {k.arg: k.value for k in module.node.keywords}
    return given.get("in_features") or (module.node.args[0] if module.node.args else None)


def _fix(ctx: Context, taken: ast.expr | None, rows: Flattened) -> Fix | None:
    """Write the number, as a product where it was written as one."""
    if taken is None or any(not isinstance(n, (ast.Constant, ast.BinOp)) for n in walk(taken)):
        return None
    text = rows.product if isinstance(taken, ast.BinOp) else str(rows.features)
    return ctx.fix(f"Set the features to {text}", ctx.replace(taken, text))
