"""Rule DG301: a loss whose input and target have shapes that cannot meet."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.shapes import loss_problem
from drygrad.static.facts.values import TorchCall
from drygrad.static.rules.loss.class_dimension import classes_last
from drygrad.static.rules.loss.pairs import Sized, aligned, extra_dimension, pair, with_suffix

_OF_CLASSES = frozenset({"cross_entropy", "nll_loss"})


class LossShapeMismatch(Rule):
    """
    ## What it does
    Finds losses that reject the shapes of their input and target.

    ## Why is this bad?
    The loss raises. `binary_cross_entropy` and `binary_cross_entropy_with_logits` need equal shapes and do not
    broadcast: a model that ends in `nn.Linear(..., 1)` returns (N, 1), while labels are usually (N,). `cross_entropy`
    and `nll_loss` take one class index per row of scores.

    ## Example
    ```python
    logits = torch.randn(10, 1)
    target = torch.ones(10)
    loss = F.binary_cross_entropy_with_logits(logits, target)
    ```
    Use instead:
    ```python
    logits = torch.randn(10, 1)
    target = torch.ones(10)
    loss = F.binary_cross_entropy_with_logits(logits, target.unsqueeze(1))
    ```

    ## Fix safety
    Unsafe: it picks one of several ways to make the shapes match.
    """

    code, name, since = "DG301", "loss-shape-mismatch", "0.1"
    severity = "error"
    calls = _OF_CLASSES | {
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "mse_loss",
        "l1_loss",
        "smooth_l1_loss",
        "huber_loss",
        "kl_div",
    }
    VALID = [
        Valid("loss = F.binary_cross_entropy_with_logits(torch.randn(10, 1), torch.ones(10).view(-1, 1))"),
        Valid("loss = F.binary_cross_entropy_with_logits(torch.randn(10, 1).squeeze(1), torch.ones(10))"),
        Valid("loss = F.cross_entropy(torch.randn(4, 3), torch.randint(0, 3, (4,)))"),
        Valid("loss = F.cross_entropy(torch.randn(4, 3, 8, 8), torch.randint(0, 3, (4, 8, 8)))"),
        Valid("loss = F.cross_entropy(torch.randn(4, 3), torch.rand(4, 3).softmax(1))"),
        Valid("loss = F.mse_loss(torch.randn(4, 3), torch.zeros(3))"),
        Valid("def f(x, n):\n    return F.binary_cross_entropy(torch.rand(n), torch.ones(x.size(0)))"),
    ]
    INVALID = [
        Invalid(
            "loss = nn.BCEWithLogitsLoss()(torch.randn(10), torch.ones(10, 1))",
            "loss = nn.BCEWithLogitsLoss()(torch.randn(10), torch.ones(10, 1).squeeze(1))",
            at=(1, 47, 1, 64),
        ),
        Invalid(
            """
            from torch.utils.data import DataLoader, TensorDataset

            features, labels = torch.randn(200, 16), torch.randint(0, 2, (200,)).float()
            loader = DataLoader(TensorDataset(features, labels), batch_size=20)
            model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
            criterion = nn.BCEWithLogitsLoss()
            optimizer = torch.optim.Adam(model.parameters())
            for x, y in loader:
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
            """,
            """
            from torch.utils.data import DataLoader, TensorDataset

            features, labels = torch.randn(200, 16), torch.randint(0, 2, (200,)).float()
            loader = DataLoader(TensorDataset(features, labels), batch_size=20)
            model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
            criterion = nn.BCEWithLogitsLoss()
            optimizer = torch.optim.Adam(model.parameters())
            for x, y in loader:
                optimizer.zero_grad()
                loss = criterion(model(x), y.unsqueeze(1))
                loss.backward()
                optimizer.step()
            """,
        ),
        Invalid(
            "p = torch.rand(2, 8)\nloss = F.binary_cross_entropy(p, torch.ones(16) * 0.5)",
            "p = torch.rand(2, 8)\nloss = F.binary_cross_entropy(p, (torch.ones(16) * 0.5).view_as(p))",
        ),
        Invalid(
            "loss = F.cross_entropy(torch.randn(4, 3), torch.randint(0, 3, (4, 1)))",
            "loss = F.cross_entropy(torch.randn(4, 3), torch.randint(0, 3, (4, 1)).squeeze(1))",
        ),
        Invalid("loss = F.mse_loss(torch.randn(4, 3), target=torch.zeros(4))", at=(1, 44, 1, 58)),
        Invalid("loss = nn.NLLLoss()(torch.randn(4, 3).log_softmax(1), torch.randint(0, 3, (5,)))"),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        shapes = pair(ctx, call) if call else None
        problem = loss_problem(call) if call else None
        if call is None or shapes is None or problem is None or classes_last(call, *shapes):
            return
        message = problem.message
        if call.operation not in message:
            message = f"{call.operation} raises: {message}"
        yield ctx.finding(self, shapes[1].expression, message, fixes=self._fixes(ctx, call, *shapes))

    def _fixes(self, ctx: Context, call: TorchCall, given: Sized, target: Sized) -> Iterator[Fix | None]:
        if call.operation not in _OF_CLASSES:
            yield from aligned(ctx, given, target)
        elif len(given.shape) > 1:
            dim = extra_dimension(target.shape, (given.shape[0], *given.shape[2:]))
            yield None if dim is None else with_suffix(ctx, target.expression, f".squeeze({dim})")
