"""Rule DG937: steps of training that blow the loss up, or change nothing about it."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class LossNotFalling(Rule):
    """
    ## What it does
    Calls a function that goes backward and takes a step of an optimizer again and again with the same inputs of the
    program's own, and follows its loss. It tells of a loss that becomes NaN or infinite, or a hundred times as great,
    and of one that stays as it is to the last digit though the gradients of what has moved say that it should change.
    Functions with several losses or optimizers, a learning rate of 0, and invented inputs are left alone. That a loss
    falls slowly, or not at all for a while, is no fault.

    ## Why is this bad?
    A single batch can be learnt by heart. Where not even that works, the learning rate is too great, the optimizer has
    other parameters than the model that is called, or the weights are set back in each step.

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
