"""Rule DG303: a loss that broadcasts its input and target to all pairs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.shapes import broadcast, shape_text
from drygrad.static.facts.values import Origin, Tensor
from drygrad.static.rules.loss.pairs import Sized, aligned, crosses, is_accident, pair, sized

_LOSSES = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})


class SilentBroadcastInLoss(Rule):
    """
    ## What it does
    Finds `mse_loss`, `l1_loss`, `smooth_l1_loss`, `huber_loss` and `((a - b) ** 2).mean()` on shapes like (N, 1) and
    (N,), which broadcast to (N, N).

    ## Why is this bad?
    Each prediction is compared with every target instead of its own. Nothing raises, the loss falls, and the model
    learns to predict the mean of all targets. The loss functions warn once at run time; the handwritten expression does
    not.

    ## Example
    ```python
    prediction, target = torch.randn(8, 1), torch.randn(8)
    loss = F.mse_loss(prediction, target)
    ```
    Use instead:
    ```python
    prediction, target = torch.randn(8, 1), torch.randn(8)
    loss = F.mse_loss(prediction, target.unsqueeze(1))
    ```

    ## Fix safety
    Unsafe: it changes the value of the loss.
    """

    code, name, since = "DG303", "silent-broadcast-in-loss", "0.1"
    severity = "warning"
    calls = _LOSSES | {"mean", "sum"}
    VALID = [
        Valid("loss = nn.MSELoss(reduction='sum')(torch.randn(4, 2).reshape(8), torch.randn(8))"),
        Valid(
            "p, y = torch.randn(8, 1), torch.randn(8)\nloss = F.mse_loss(p.squeeze(-1), y) + F.mse_loss(p.view(-1), y)"
        ),
        Valid("loss = F.mse_loss(torch.randn(8, 1), torch.tensor(0.5)) + F.l1_loss(torch.randn(8, 3), torch.zeros(3))"),
        Valid("loss = F.mse_loss(torch.randn(1, 1), torch.randn(1))"),
        Valid("x = torch.randn(8)\nspread = ((x.unsqueeze(1) - x) ** 2).mean() + (x[:, None] - x).abs().mean()"),
        Valid("x = torch.randn(8, 3)\nvariance = ((x - x.mean(1, keepdim=True)) ** 2).mean()"),
        Valid("a, b = torch.randn(8, 1), torch.randn(8)\ntable = (a - b).pow(2)"),
    ]
    INVALID = [
        Invalid(
            "p, y = torch.randn(8, 1), torch.randn(8)\nloss = F.mse_loss(p, y)",
            "p, y = torch.randn(8, 1), torch.randn(8)\nloss = F.mse_loss(p, y.unsqueeze(1))",
            at=(2, 21, 2, 22),
        ),
        Invalid(
            "p, y = torch.randn(8, 1), torch.randn(8)\nloss = ((p - y) ** 2).mean()",
            "p, y = torch.randn(8, 1), torch.randn(8)\nloss = ((p - y.unsqueeze(1)) ** 2).mean()",
            at=(2, 9, 2, 14),
        ),
        Invalid(
            "p, y = torch.randn(8), torch.randn(8, 1)\nloss = torch.mean(torch.abs(p - y))",
            "p, y = torch.randn(8), torch.randn(8, 1)\nloss = torch.mean(torch.abs(p - y.squeeze(1)))",
        ),
        Invalid(
            """
            from torch.utils.data import DataLoader, TensorDataset

            class Regressor(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.net = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 1))

                def forward(self, x):
                    return self.net(x)

            def train(model, loader, criterion, optimizer):
                for features, price in loader:
                    optimizer.zero_grad()
                    loss = criterion(model(features), price)
                    loss.backward()
                    optimizer.step()

            model = Regressor()
            data = TensorDataset(torch.randn(500, 13), torch.randn(500))
            train(model, DataLoader(data, batch_size=32), nn.SmoothL1Loss(), torch.optim.Adam(model.parameters()))
            """,
            """
            from torch.utils.data import DataLoader, TensorDataset

            class Regressor(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.net = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 1))

                def forward(self, x):
                    return self.net(x)

            def train(model, loader, criterion, optimizer):
                for features, price in loader:
                    optimizer.zero_grad()
                    loss = criterion(model(features), price.unsqueeze(1))
                    loss.backward()
                    optimizer.step()

            model = Regressor()
            data = TensorDataset(torch.randn(500, 13), torch.randn(500))
            train(model, DataLoader(data, batch_size=32), nn.SmoothL1Loss(), torch.optim.Adam(model.parameters()))
            """,
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        if call is None:
            return
        if call.operation in _LOSSES:
            shapes = pair(ctx, call)
            if shapes is not None and crosses(shapes[0].shape, shapes[1].shape):
                yield self._finding(ctx, call.operation, shapes[1].expression, *shapes)
            return
        difference = _difference(ctx.tensor(call.operands[0]) if call.operands else None)
        if difference is not None and isinstance(difference.node, ast.BinOp):
            shapes = sized(ctx, difference.node.left), sized(ctx, difference.node.right)
            if shapes[0] and shapes[1] and is_accident(ctx, shapes[0], shapes[1]):
                yield self._finding(ctx, "the subtraction", difference.node, shapes[0], shapes[1])

    def _finding(self, ctx: Context, what: str, node: ast.expr, given: Sized, target: Sized) -> Finding:
        made = broadcast(given.shape, target.shape)
        return ctx.finding(
            self,
            node,
            f"{what} broadcasts {shape_text(given.shape)} and {shape_text(target.shape)} to "
            f"{shape_text(made or ())}; each prediction is compared with every target",
            fixes=aligned(ctx, given, target),
        )


def _difference(tensor: Tensor | None) -> Origin | None:
    """Return the subtraction whose squares or amounts a tensor holds."""
    origin = tensor.origin if tensor is not None else None
    if origin is None or origin.operation not in ("pow", "square", "abs", "mul") or not origin.operands:
        return None
    if origin.operation == "mul" and origin.operands[0] != origin.operands[-1]:
        return None
    inner = origin.operands[0]
    return inner.origin if isinstance(inner, Tensor) and inner.made_by("sub") else None
