"""Rule DG935: parameters that a result depends on, and that no gradient reaches."""

from __future__ import annotations

from typing import ClassVar

from drygrad.model import Invalid, Rule, Severity, Valid


class GradientMissing(Rule):
    """
    ## What it does
    Calls a target whose result has a graph, with gradients asked for, and looks for parameters that backward would not
    reach. These are changed a little; where the result changes with them, it tells where their graph ends. Every
    `torch.autograd.Function` of the user's is compared with finite differences on the way (DG123).

    It is a warning where a module in training copies numbers (`torch.tensor([...])`, `.item()`), which is never meant
    to stop a gradient, otherwise an info. Frozen parameters, and what stands under `no_grad`, are meant.

    ## Why is this bad?
    The optimizer passes over a parameter without a gradient: it keeps the value that it began with, and nothing tells.

    ## Example
    ```python
    def forward(self, x):
        gain = torch.tensor([self.low, self.high])
        return self.layer(x) * gain
    ```
    Use instead:
    ```python
    def forward(self, x):
        gain = torch.stack([self.low, self.high])
        return self.layer(x) * gain
    ```
    """

    code, name, since = "DG935", "gradient-missing", "0.1"
    severity: ClassVar[Severity] = "info"
    run_only = True
    relation = "gradients are true"
    VALID = [
        Valid(
            """
            import torch
            import torch.nn as nn

            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(4, 2)
                    self.gain = nn.Parameter(torch.tensor(2.0))

                # dry-run: x=torch.randn(3, 4)
                def forward(self, x):
                    return self.layer(x) * self.gain
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
                    self.layer = nn.Linear(4, 2)
                    self.gain = nn.Parameter(torch.tensor(2.0))

                # dry-run: x=torch.randn(3, 4)
                def forward(self, x):
                    return self.layer(x) * self.gain.item()
            """,
            severity="warning",
        ),
    ]
