"""Rule DG931: what a step of training leaves for the next one."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class StepNotForgotten(Rule):
    """
    ## What it does
    Calls a function that runs backward and an optimizer step several times in a row, and checks every call as in a dry
    run; for other modules, the forward followed by a backward. It reports a later call that fails because it goes
    through the graph of an earlier one (DG108, DG113), whatever keeps the graph of each call (DG501, DG502), and
    gradients that nothing clears (DG703). If none of these names the cause, but each call leaves more tensors with a
    graph, it has this code.

    ## Why is this bad?
    The first step is right. Then the second fails, or every step needs more memory than the one before, or the
    gradients of all batches add up. Inputs that carry a graph, and modules with a method that resets their state, are
    not reported.

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
