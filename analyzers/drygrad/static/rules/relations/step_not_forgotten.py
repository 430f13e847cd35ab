"""Rule DG931: what a step of training leaves for the next one."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class StepNotForgotten(Rule):
    """
    ## What it does
    Calls a function that goes backward and takes a step of an optimizer several times in a row, with all instruments
    at work, and of other modules the forward with a backward behind each. It tells of a later call that fails because
    it goes through the graph of an earlier one (DG108, DG113), of what keeps the graph of each (DG501, DG502), and of
    gradients that nothing in the program clears (DG703). Where none of these names the cause, it stands under this
    code: there are more tensors with a graph after each call.

    ## Why is this bad?
    The first step is right. The second fails, or each step needs more memory than the one before it, or the
    gradients of all batches add up. Inputs that carry a graph, and modules with a method that resets what they keep,
    are left alone.

    ## Example
    ```python
    def step(model, optimizer, x, y):
        optimizer.zero_grad()
        loss = mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        seen[len(seen)] = model(x)
    ```
    Use instead:
    ```python
    def step(model, optimizer, x, y):
        optimizer.zero_grad()
        loss = mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        seen[len(seen)] = model(x).detach()
    ```
    """

    code, name, since = "DG931", "step-not-forgotten", "0.1"
    run_only = True
    relation = "steps forget"
    VALID = [
        Valid(
            """
            import torch
            import torch.nn as nn

            model = nn.Linear(3, 1)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)

            class Log:
                def __init__(self):
                    self.seen = ()

                def keep(self, value):
                    self.seen = (*self.seen, value)

            log = Log()

            # dry-run: x=torch.randn(4, 3)
            def step(x):
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
                log.keep(model(x).detach())
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch
            import torch.nn as nn

            model = nn.Linear(3, 1)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)

            class Log:
                def __init__(self):
                    self.seen = ()

                def keep(self, value):
                    self.seen = (*self.seen, value)

            log = Log()

            # dry-run: x=torch.randn(4, 3)
            def step(x):
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
                log.keep(model(x))
            """,
        ),
    ]
