"""Rule DG314: an operation on sizes that cannot meet."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.expected_errors import is_expected
from drygrad.static.facts.events import ShapeMismatch
from drygrad.static.facts.operations import LOSSES
from drygrad.static.rules.loss.shape_origins import flattened
from drygrad.static.syntax import parameter_names
from drygrad.static.tree import walk


class ShapeMismatchInOperation(Rule):
    """
    ## What it does
    Finds operations (matrix products, layers, arithmetic, `view`, `cat`, subscripts ...) on tensors with incompatible
    sizes. Sizes are tracked from literals (`torch.randn(8, 10)`, `nn.Linear(10, 5)`) through the file.

    ## Why is this bad?
    It raises when the line is reached, perhaps after minutes of loading data.

    ## Example
    ```python
    hidden = nn.Linear(10, 20)(torch.randn(8, 10))
    out = nn.Linear(30, 5)(hidden)
    ```
    Use instead:
    ```python
    hidden = nn.Linear(10, 20)(torch.randn(8, 10))
    out = nn.Linear(20, 5)(hidden)
    ```

    ## Fix safety
    A dry run tries edits that make the sizes match. Unsafe: matching sizes need not be the intended ones.
    """

    code, name, since = "DG314", "shape-mismatch", "0.1"
    severity = "error"
    VALID = [
        Valid("y = torch.randn(3, 4) @ torch.randn(4, 5) + torch.randn(5)"),
        Valid("net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(288, 2))\nnet(torch.randn(1, 3, 8, 8))"),
        Valid(
            """
            def extended(mask):
                if mask.dim() == 4:
                    return mask[:, :, None, :, :]
                if len(mask.shape) != 3:
                    raise ValueError(mask.shape)
                return mask[None, ...].expand(4, -1, -1, -1)

            def forward(ids):
                return extended(torch.ones(2, 3))
            """
        ),
        Valid(
            """
            def places(x: torch.Tensor, kinds=None):
                b, n = x.shape[:2]
                if kinds is None:
                    kinds = torch.zeros([b, n, n, 2])
                else:
                    kinds = kinds.unsqueeze(-1).repeat(1, 1, n)
                return kinds
            """
        ),
        Valid(
            """
            def alike(a, b):
                if b.size(0) > a.size(0):
                    a = a.expand(b.size(0), a.size(1))
                return a

            alike(torch.rand(4, 3), torch.rand(1, 3))
            """
        ),
        Valid(
            """
            from dataclasses import dataclass

            @dataclass
            class Hypothesis:
                tokens: torch.Tensor = torch.tensor([])
                length: torch.Tensor = torch.tensor(0)

            def best(hypotheses: Hypothesis):
                return hypotheses.tokens[0, 1:], hypotheses.length[0]
            """
        ),
        Valid(
            """
            class Trunk(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.stem, self.fc = nn.Linear(8, 16), nn.Linear(16, 1000)

                def forward(self, x):
                    return self.fc(self.stem(x))

            class Classifier(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.trunk = Trunk()
                    self.trunk.fc = nn.Identity()
                    self.head = nn.Linear(16, 5)

                def forward(self, x):
                    return self.head(self.trunk(x))

            Classifier()(torch.randn(2, 8))
            """
        ),
        Valid(
            """
            def is_latent(x):
                return x.dtype == torch.float

            def channels_first(x):
                return x.permute(0, 2, 1) if is_latent(x) else x

            channels_first(torch.randint(0, 8, (2, 120)))
            """
        ),
        Valid("def encode(vit, x: torch.Tensor):\n    y = vit.norm(x)\n    return y[:, 0], vit.norm(y)[:, 1]"),
        Valid(
            """
            def conv_nd(dims, *args):
                if dims == 1:
                    return nn.Conv1d(*args)
                return nn.Conv3d(*args)

            class Pool(nn.Module):
                def __init__(self, channels):
                    super().__init__()
                    self.project = conv_nd(1, channels, channels, 1)

                def forward(self, x):
                    b, c, *rest = x.shape
                    return self.project(x.reshape(b, c, -1))
            """
        ),
        Valid(
            """
            class Skip(nn.Module):
                def __init__(self, heads):
                    super().__init__()
                    self.heads = heads

                def forward(self, x):
                    self.heads[0] = x
                    return x

            class Deep(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.heads = [torch.rand(1)] * 3
                    self.skip = Skip(self.heads)

                def forward(self, x):
                    out = self.skip(x)
                    return [F.interpolate(head, out.shape[2:]) for head in self.heads]
            """
        ),
        Valid("def f(p, q: torch.Tensor):\n    return torch.kl_div(p.log(), q).sum(1)  # this form reduces nothing"),
        Valid("def f(a, b):\n    return a @ b, torch.cat([a, b]), a.view(3, 4)"),
        Valid("x = torch.randn(4, 6)\ny = x.view(2, -1), x.reshape(3, 8), torch.cat([x, torch.randn(1, 6)])"),
        Valid(
            "import pytest\nimport torch\nwith pytest.raises(RuntimeError):\n    torch.randn(3, 4) @ torch.randn(3, 4)"
        ),
        Valid(
            "try:\n    y = torch.randn(3, 4) @ torch.randn(3, 4)\nexcept RuntimeError:\n    y = None\n"
            "def f(x: torch.Tensor):\n    b, n = x.shape\n    return x @ torch.randn(n, 3, device=x.device)"
        ),
    ]
    INVALID = [
        Invalid("y = torch.randn(3, 4) @ torch.randn(3, 4)", at=(1, 4, 1, 41)),
        Invalid(
            "y = torch.randn(3, 4) + torch.randn(3, 5)\nz = torch.cat([torch.zeros(2, 3), torch.zeros(2, 4)])", count=2
        ),
        Invalid("y = torch.randn(4, 6).view(5, -1)"),
        Invalid(
            """
            class Net(nn.Module):
                def __init__(self, features, hidden=64):
                    super().__init__()
                    self.body = nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Dropout(0.1))
                    self.head = nn.Linear(128, 10)

                def forward(self, x):
                    return self.head(self.body(x))

            model = Net(20)
            out = model(torch.randn(32, 20))
            """,
            at=(8, 15, 8, 38),
        ),
        Invalid(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader, TensorDataset

            class Encoder(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.conv1 = nn.Conv2d(1, 16, 3)
                    self.conv2 = nn.Conv2d(32, 64, 3)

                def forward(self, x):
                    return self.conv2(torch.relu(self.conv1(x)))

            data = TensorDataset(torch.randn(100, 1, 28, 28), torch.randint(0, 10, (100,)))
            encoder = Encoder()
            for images, labels in DataLoader(data, batch_size=4):
                features = encoder(images)
            """,
            at=(12, 15, 12, 52),
        ),
    ]

    def visit_mismatch(self, event: ShapeMismatch, ctx: Context) -> Iterator[Finding]:
        if event.operation in LOSSES or flattened(event) is not None or is_expected(event.node, ctx):
            return
        if _is_for_others(event.node, ctx):
            return
        module = event.call.module if event.call is not None else None
        made = module.node if module is not None and module.node is not None else None
        operation = "indexing" if event.operation == "getitem" else event.operation
        yield ctx.finding(
            self,
            event.node,
            f"{operation} raises here: {event.message}",
            related=[("the layer is created here", made)] if made is not None else [],
        )


def _is_for_others(node: ast.expr, ctx: Context) -> bool:
    """Say whether a branch is for some of the tensors that a parameter may be, perhaps not for those that we see."""
    function = ctx.function(node)
    if function is None:
        return False
    used = {part.id for part in walk(node) if isinstance(part, ast.Name)}.intersection(parameter_names(function))
    branches = (a for a in ctx.ancestors(node) if isinstance(a, (ast.If, ast.IfExp)))
    return any(_asks_what_kind(branch.test, used) for branch in branches)


def _asks_what_kind(test: ast.expr, names: set[str]) -> bool:
    """Say whether a test asks a function about one of these tensors, or asks for its dtype or one of its sizes."""
    for part in walk(test):
        match part:
            case ast.Attribute(
                value=ast.Name(id=name), attr="dtype" | "is_floating_point" | "is_complex" | "size" | "shape"
            ):
                pass
            case ast.Call(func=ast.Name(), args=[ast.Name(id=name), *_]):
                pass
            case _:
                continue
        if name in names:
            return True
    return False
