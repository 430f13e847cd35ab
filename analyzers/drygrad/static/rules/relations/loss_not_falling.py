"""Rule DG937: steps of training that blow the loss up, or change nothing about it."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class LossNotFalling(Rule):
    """
    ## What it does
    Calls a function that runs backward and an optimizer step repeatedly on the program's own inputs, and follows its
    loss. It reports a loss that becomes NaN or infinite, or a hundred times as large, and one that stays the same to
    the last digit although the gradients and updates say that it should change. Functions with several losses or
    optimizers, a learning rate of 0, and invented inputs are not tried. A loss that falls slowly, or not at all for a
    while, is not a fault.

    ## Why is this bad?
    Any model should be able to memorize a single batch. If not, the learning rate is too high, the optimizer holds
    other parameters than the model being called, or the weights are reset in each step.

    ## Example
    ```python
    optimizer = torch.optim.SGD(model.parameters(), lr=30.0)
    ```
    Use instead:
    ```python
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03)
    ```
    """

    code, name, since = "DG937", "loss-not-falling", "0.1"
    run_only = True
    relation = "it learns"
    VALID = [
        Valid(
            """
            import torch
            import torch.nn as nn

            model = nn.Linear(3, 1)
            optimizer = torch.optim.SGD(model.parameters(), 0.01)

            # dry-run: x=torch.randn(8, 3)
            def step(x):
                optimizer.zero_grad()
                (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
                optimizer.step()
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch
            import torch.nn as nn

            model = nn.Linear(3, 1)
            optimizer = torch.optim.SGD(model.parameters(), 30.0)

            # dry-run: x=torch.randn(8, 3)
            def step(x):
                optimizer.zero_grad()
                (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
                optimizer.step()
            """,
        ),
    ]
