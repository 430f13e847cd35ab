"""Rule DG205: an operation on tensors of different devices."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.events import DeviceMismatch
from drygrad.static.facts.operations import LOSSES
from drygrad.static.rules.device.meetings import of_loss, of_operation, told


class TensorsOnDifferentDevices(Rule):
    """
    ## What it does
    Finds operations and losses whose tensors are on different devices: a prediction on the GPU, its target on the CPU.

    ## Why is this bad?
    An operation runs on one device, and torch does not copy its operands there implicitly (except CPU tensors of zero
    dimensions): it raises "Expected all tensors to be on the same device". If the device is chosen at run time, the
    code works on a machine without a GPU and fails on one that has one.

    ## Example
    ```python
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = nn.Linear(8, 4).to(device)
    for images, labels in DataLoader(dataset):
        loss = F.cross_entropy(model(images.to(device)), labels)
    ```
    Use instead:
    ```python
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = nn.Linear(8, 4).to(device)
    for images, labels in DataLoader(dataset):
        loss = F.cross_entropy(model(images.to(device)), labels.to(device))
    ```

    ## Fix safety
    Safe: either the code raised before, or both are on the CPU and `.to()` has no effect.
    """

    code, name, since = "DG205", "tensors-on-different-devices", "0.1"
    calls = LOSSES
    severity = "error"
    VALID = [
        Valid(
            """
            class Codes(nn.Module):
                def __init__(self, learnt):
                    super().__init__()
                    table = torch.randn(8, 4)
                    self.table = nn.Parameter(table) if learnt else table
                    self.register_buffer("fixed", torch.randn(8, 4))

                def forward(self, x):
                    chosen = torch.randperm(8, device=x.device)[:4]
                    return self.table[chosen], self.fixed[chosen]
            """
        ),
        Valid("x = torch.randn(4, 3).cuda()\ni = torch.tensor([0, 1])\ny = x[i], x[torch.arange(2)], torch.eye(3)[i]"),
        Valid(
            """
            from .flows import Flow

            class Sylvester(Flow):
                def __init__(self, n):
                    super().__init__(n)
                    self.dense = nn.Parameter(torch.empty(n, n))
                    self.register_buffer("mask", torch.ones(n, n))

                def call(self, x: torch.Tensor):
                    return torch.eye(8, device=x.device) @ (self.dense * self.mask)
            """
        ),
        Valid(
            """
            def start(ids: torch.Tensor | None = None):
                first = torch.full((len(ids), 1), 3, device=ids.device)
                return torch.cat([torch.full_like(ids, fill_value=7), first], dim=1)
            """
        ),
        Valid(
            """
            from .detection import Detector

            class Order(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.embed = nn.Embedding(3, 4)

                def forward(self, labels):
                    pad = torch.zeros(8, 1, 4, device=labels.device)
                    return torch.cat([pad, self.embed(labels)], dim=1)

            class Ordered(Detector):
                def __init__(self):
                    super().__init__()
                    self.order = Order()

                def forward(self, x):
                    return self.order(labels=x.argmax(-1))
            """
        ),
        Valid("x = torch.ones(3).cuda()\ny = torch.ones(3, device=x.device)\nx + y"),
        Valid("x = torch.ones(3).cuda()\ny = x * torch.tensor(2.0)"),
        Valid("def f(x, y):\n    return F.mse_loss(x.cuda(), y)"),
        Valid("x = torch.ones(3).cuda()\nx[torch.tensor([0, 2])]"),
        Valid("x = torch.ones(3)\nif torch.cuda.is_available():\n    x = x.cuda()\nx + torch.ones(3)"),
        Valid(
            """
            def train(model, loader, device):
                for x, y in loader:
                    x = x.to(device)
                    loss = F.cross_entropy(model(x).cpu(), y)
                    loss.backward()
            """
        ),
        Valid(
            """
            def train(model, loader, device):
                for x, y in loader:
                    x, y = x.to(device), y.to(device)
                    loss = F.cross_entropy(model(x), y)
                    loss.backward()
            """
        ),
        Valid(
            """
            import pytest
            import torch

            with pytest.raises(RuntimeError):
                torch.ones(2).cuda() + torch.ones(2)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            labels = torch.randint(0, 4, (8,)).cuda()
            one_hot = torch.eye(4)[labels]
            """,
            """
            labels = torch.randint(0, 4, (8,)).cuda()
            one_hot = torch.eye(4, device=labels.device)[labels]
            """,
            at=(2, 10, 2, 22),
        ),
        Invalid(
            "pred = torch.randn(8, 3, device='cuda')\ntarget = torch.randint(0, 3, (8,))\n"
            "F.cross_entropy(pred, target)",
            "pred = torch.randn(8, 3, device='cuda')\ntarget = torch.randint(0, 3, (8,))\n"
            "F.cross_entropy(pred, target.to(pred.device))",
            at=(3, 22, 3, 28),
        ),
        Invalid(
            "def f(n):\n    x = torch.ones(n).cuda()\n    return (x.exp() + (torch.ones(n) * 2))",
            'def f(n):\n    x = torch.ones(n).cuda()\n    return (x.exp() + ((torch.ones(n) * 2).to("cuda")))',
        ),
        Invalid(
            "def f(n, device):\n    x = torch.ones(n, device=device)\n    return torch.cat([x, torch.zeros(1)])",
            "def f(n, device):\n    x = torch.ones(n, device=device)\n"
            "    return torch.cat([x, torch.zeros(1, device=x.device)])",
            severity="warning",
        ),
        Invalid(
            "def single(x, shape, device):\n    x = torch.rand(shape, device=device)\n"
            "    return torch.where(x > 0.5, torch.ones(shape), torch.zeros(shape))",
            "def single(x, shape, device):\n    x = torch.rand(shape, device=device)\n"
            "    return torch.where(x > 0.5, torch.ones(shape, device=device), torch.zeros(shape, device=device))",
            severity="warning",
        ),
        Invalid(
            """
            def train(model, loader, optimizer, device):
                model.to(device)
                for images, labels in loader:
                    images = images.to(device)
                    optimizer.zero_grad()
                    logits = model(images)
                    loss = F.cross_entropy(logits, labels)
                    loss.backward()
                    optimizer.step()
            """,
            """
            def train(model, loader, optimizer, device):
                model.to(device)
                for images, labels in loader:
                    labels = labels.to(device)
                    images = images.to(device)
                    optimizer.zero_grad()
                    logits = model(images)
                    loss = F.cross_entropy(logits, labels)
                    loss.backward()
                    optimizer.step()
            """,
            severity="warning",
        ),
        Invalid(
            """
            from torch.utils.data import DataLoader
            import torch
            import torch.nn as nn

            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).to(device)
            criterion = nn.CrossEntropyLoss()
            for step, (x, y) in enumerate(DataLoader(data, batch_size=32)):
                out = model(x.to(device))
                loss = criterion(out, y)
                loss.backward()
            """,
            """
            from torch.utils.data import DataLoader
            import torch
            import torch.nn as nn

            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            model = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).to(device)
            criterion = nn.CrossEntropyLoss()
            for step, (x, y) in enumerate(DataLoader(data, batch_size=32)):
                y = y.to(device)
                out = model(x.to(device))
                loss = criterion(out, y)
                loss.backward()
            """,
            severity="warning",
        ),
    ]

    def visit_mismatch(self, event: DeviceMismatch, ctx: Context) -> Iterator[Finding]:
        """An operation on tensors of which the devices are known."""
        yield from told(self, of_operation(event, ctx), ctx)

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        """A loss of a model's output whose target has been left where the loader put it."""
        yield from told(self, of_loss(node, ctx), ctx)
