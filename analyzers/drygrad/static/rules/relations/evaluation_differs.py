"""Rule DG925: a module that in evaluation gives another result for equal inputs."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class EvaluationDiffers(Rule):
    """
    ## What it does
    Calls a module in eval mode twice with the same inputs and different seeds, and reports the first operation whose
    result differs. Active dropout is reported as DG743, state kept between calls under this code. If the program trains
    the module, it is an info: nothing shows that it is ever evaluated.

    ## Why is this bad?
    After `model.eval()`, equal inputs must give equal results: a metric must be the same when it is computed twice, and
    an answer must not depend on earlier requests. Random numbers that the code draws on purpose, an explicit
    `training=True`, and state that a method of the class resets are not reported. A class that by its name is only for
    training, such as `GaussianNoise` or `DropPath`, but never checks `self.training`, is an info.

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
