"""Rule DG935: parameters that a result depends on, and that no gradient reaches."""

from __future__ import annotations

from typing import ClassVar

from drygrad.model import Invalid, Rule, Severity, Valid


class GradientMissing(Rule):
    """
    ## What it does
    Runs a target whose result has a graph, with gradients enabled, and looks for parameters that backward would not
    reach. It changes each slightly; if the result changes too, it reports where the graph ends. Every custom
    `torch.autograd.Function` is also compared with finite differences (DG123).

    It is a warning if a module in training copies numbers (`torch.tensor([...])`, `.item()`), which is never meant to
    stop a gradient, otherwise an info. Frozen parameters, and whatever is under `no_grad`, are assumed to be intended.

    ## Why is this bad?
    The optimizer silently skips parameters without a gradient, so they keep their initial values.

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
