"""Rule DG925: a module that in evaluation gives another result for equal inputs."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class EvaluationDiffers(Rule):
    """
    ## What it does
    Calls a module in evaluation mode twice with the same inputs and another seed, and tells the first operation that
    comes to something else. Dropout that stays on is told as DG743; what is kept from call to call under this code.
    Of a module that the program trains it is an info: nothing says that it is ever evaluated.

    ## Why is this bad?
    After `model.eval()` equal inputs are to give equal results: metrics that are computed twice must agree, and what a
    user is told must not depend on who asked before. Random numbers that the text draws on purpose, `training=True`
    that it writes, and state that a method of the class resets are left alone. A class that is there for training by
    its name, as `GaussianNoise` or `DropPath`, and never looks at `self.training`, is told as an info.

    ## Example
    ```python
    def forward(self, x):
        self.state = self.cell(x, self.state).detach()
        return self.head(self.state)
    ```
    Use instead:
    ```python
    def forward(self, x, state):
        state = self.cell(x, state)
        return self.head(state), state
    ```
    """

    code, name, since = "DG925", "evaluation-differs", "0.1"
    run_only = True
    relation = "evaluation repeats"
    VALID = [
        Valid(
            """
            import torch
            import torch.nn as nn

            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.cell = nn.GRUCell(6, 6)

                # dry-run: x=torch.randn(4, 6), state=torch.zeros(4, 6)
                def forward(self, x, state):
                    return self.cell(x, state)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch
            import torch.nn as nn

            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.cell = nn.GRUCell(6, 6)
                    self.state = torch.zeros(4, 6)

                # dry-run: x=torch.randn(4, 6)
                def forward(self, x):
                    state = self.cell(x, self.state)
                    self.state = state.detach()
                    return state
            """,
            at=(12, 16, 12, 40),
            severity="info",
        ),
    ]
