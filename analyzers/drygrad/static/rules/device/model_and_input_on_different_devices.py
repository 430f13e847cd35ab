"""Rule DG201: a model and its input on different devices."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.rules.device.meetings import of_model, told


class ModelAndInputOnDifferentDevices(Rule):
    """
    ## What it does
    Finds a model called with a tensor on another device: the model was moved to the GPU, but the batch is still on the
    CPU, where data loaders put it.

    ## Why is this bad?
    The first layer raises "Expected all tensors to be on the same device". If the device is chosen at run time, the
    code works on a machine without a GPU and fails on one that has one.

    ## Example
    ```python
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = nn.Linear(8, 4).to(device)
    for images, labels in DataLoader(dataset):
        loss = F.cross_entropy(model(images), labels)
    ```
    Use instead:
    ```python
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = nn.Linear(8, 4).to(device)
    for images, labels in DataLoader(dataset):
        images, labels = images.to(device), labels.to(device)
        loss = F.cross_entropy(model(images), labels)
    ```

    ## Fix safety
    Safe for inputs: either the code raised before, or everything is on the CPU and `.to()` has no effect. Unsafe if the
    model is what has to move.
    """

    code, name, since = "DG201", "model-and-input-on-different-devices", "0.1"
    severity = "error"
    VALID = [
        Valid("model = nn.Linear(3, 2).cuda()\nmodel(torch.randn(4, 3).cuda())"),
        Valid("model = nn.DataParallel(nn.Linear(3, 2)).cuda()\nmodel(torch.randn(4, 3))"),
        Valid("model = nn.Linear(3, 2)\nif torch.cuda.is_available():\n    model.cuda()\nmodel(torch.randn(4, 3))"),
        Valid(
            "def run(model, loader, device):\n    model.to(device)\n"
            "    for batch in loader:\n        yield model(batch)"
        ),
        Valid(
            """
            def train(model, loader, device):
                model.to(device)
                for x, y in loader:
                    x = x.to(device)
                    yield model(x)
            """
        ),
        Valid(
            """
            def train(model, loader, device):
                model.to(device)
                for x, y in loader:
                    x, y = (t.to(device) for t in (x, y))
                    yield model(x)
            """
        ),
        Valid(
            """
            from accelerate import Accelerator

            def train(model, loader):
                accelerator = Accelerator()
                model.to(accelerator.device)
                model, loader = accelerator.prepare(model, loader)
                for x, y in loader:
                    yield model(x)
            """
        ),
        Valid(
            """
            import torch
            from torch import nn

            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.fc = nn.Linear(3, 2)

                def forward(self, x):
                    x = x.to(self.fc.weight.device)
                    return self.fc(x)

            model = Net().to("cuda")
            model(torch.randn(4, 3))
            """
        ),
        Valid(
            """
            def train(model, loader, device):
                model.to(device)
                model = nn.DataParallel(model)
                for x, y in loader:
                    yield model(x)
            """
        ),
        Valid(
            """
            class Toy(nn.Module):
                def __init__(self, size, device=None):
                    super().__init__()
                    self.device = device
                    self.layer = nn.Linear(size, size, device=device)

                def forward(self, x):
                    return self.layer(x)

            def check(device):
                model = Toy(4, device=device)
                return model(torch.randn(2, 4, device=model.device)), Toy(4, "cuda")(torch.randn(2, 4, device="cuda"))
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            def test(args, test_loader):
                net = nn.Linear(3, 2).to(args.device)
                for x, y in test_loader:
                    print((net(x).argmax(1) == y).float().mean())
            """,
            """
            def test(args, test_loader):
                net = nn.Linear(3, 2).to(args.device)
                for x, y in test_loader:
                    x, y = x.to(args.device), y.to(args.device)
                    print((net(x).argmax(1) == y).float().mean())
            """,
            severity="warning",
        ),
        Invalid(
            "model = nn.Linear(3, 2).cuda()\nmodel(torch.randn(4, 3))",
            'model = nn.Linear(3, 2).cuda()\nmodel(torch.randn(4, 3, device="cuda"))',
            at=(2, 6, 2, 23),
        ),
        Invalid(
            "model = nn.Linear(3, 2)\nx = torch.randn(4, 3, device='cuda')\nmodel(x)",
            "model = nn.Linear(3, 2).to(\"cuda\")\nx = torch.randn(4, 3, device='cuda')\nmodel(x)",
            at=(3, 6, 3, 7),
        ),
        Invalid(
            """
            def train(model, loader, optimizer, device):
                model.to(device)
                model.train()
                for images, labels in loader:
                    optimizer.zero_grad()
                    loss = F.cross_entropy(model(images), labels)
                    loss.backward()
                    optimizer.step()
            """,
            """
            def train(model, loader, optimizer, device):
                model.to(device)
                model.train()
                for images, labels in loader:
                    images, labels = images.to(device), labels.to(device)
                    optimizer.zero_grad()
                    loss = F.cross_entropy(model(images), labels)
                    loss.backward()
                    optimizer.step()
            """,
            at=(6, 37, 6, 43),
            severity="warning",
        ),
        Invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))

                def forward(self, x):
                    return self.body(x)

            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            model = Net().to(device)
            for x, y in DataLoader(data, batch_size=4, shuffle=True):
                out = model(x)
            """,
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader

            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))

                def forward(self, x):
                    return self.body(x)

            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            model = Net().to(device)
            for x, y in DataLoader(data, batch_size=4, shuffle=True):
                x = x.to(device)
                out = model(x)
            """,
            severity="warning",
        ),
        Invalid(
            """
            class Trainer:
                def __init__(self, model, loader):
                    self.model = model.cuda()
                    self.loader = loader

                def evaluate(self):
                    for step, (image, label) in enumerate(self.loader):
                        yield self.model(image).argmax(1) == label
            """,
            """
            class Trainer:
                def __init__(self, model, loader):
                    self.model = model.cuda()
                    self.loader = loader

                def evaluate(self):
                    for step, (image, label) in enumerate(self.loader):
                        image, label = image.to("cuda"), label.to("cuda")
                        yield self.model(image).argmax(1) == label
            """,
            severity="warning",
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        yield from told(self, of_model(node, ctx), ctx)
