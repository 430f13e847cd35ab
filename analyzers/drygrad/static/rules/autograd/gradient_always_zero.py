"""Rule DG114: parameters whose gradients are exactly zero at each step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.rules.autograd.ends import ends_of_training


class GradientAlwaysZero(Rule):
    """
    ## What it does
    Finds layers held by an optimizer whose results reach the losses of the file only through `round`, `floor`, `ceil`,
    `trunc` or `sign`.

    A dry run reports parameters whose gradients are exactly zero in every element, over several steps.

    ## Why is this bad?
    Parameters with zero gradients do not learn. The derivative of `round` and the like is zero everywhere, and autograd
    says nothing of it. Other causes, which a run sees: all inputs of a ReLU are negative, a softmax or a
    sigmoid is saturated, a factor on the way is 0, or float16 has rounded the gradients to zero. A few steps show
    little of a training, so this finding is a hint.

    ## Example
    ```python
    model = nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters())
    counts = torch.round(model(torch.randn(2, 4)))
    F.mse_loss(counts, torch.tensor([[3.0], [5.0]])).backward()
    optimizer.step()
    ```
    Use instead:
    ```python
    model = nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters())
    counts = model(torch.randn(2, 4))
    F.mse_loss(counts, torch.tensor([[3.0], [5.0]])).backward()
    optimizer.step()
    ```

    ## Fix safety
    No fix: replacing a step function such as `sign`, or reviving dead units, means changing the model.
    """

    code, name, since = "DG114", "gradient-always-zero", "0.1"
    severity = "hint"
    VALID = [
        Valid(  # the gradient goes around the step
            """
            layer = nn.Linear(4, 8)
            optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
            hidden = layer(torch.randn(3, 4))
            (hidden + (hidden.round() - hidden).detach()).pow(2).mean().backward()
            optimizer.step()
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            class Counter(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.body = nn.Linear(4, 1)

                def forward(self, x):
                    return torch.round(self.body(x)).squeeze(-1)

            model = Counter()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(3):
                optimizer.zero_grad()
                F.mse_loss(model(torch.randn(3, 4)), torch.randn(3)).backward()
                optimizer.step()
            """,
            at=(7, 15, 7, 40),
            severity="warning",
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        for end in ctx.derived(ends_of_training):
            if end.code == self.code:
                yield end.finding(self, ctx)
