"""Rule DG926: a call in evaluation that changes parameters, buffers or the mode of a module."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class EvaluationChangesState(Rule):
    """
    ## What it does
    Calls a module in eval mode and compares its parameters, buffers and modes before and after. It reports the line
    that changed them. Counters are not reported, nor what only the first call creates, such as a cached table. If the
    program trains the module, it is an info: nothing shows that it is ever evaluated.

    ## Why is this bad?
    Validation then changes the model that it measures: running statistics include the validation set, a table scaled in
    place shrinks with each call, and a part switched to training mode stays there. Results depend on how often, and on
    what, the model was evaluated before.

    ## Example
    ```python
    def forward(self, x):
        return x + self.table.mul_(self.scale)
    ```
    Use instead:
    ```python
    def forward(self, x):
        return x + self.table * self.scale
    ```
    """

    code, name, since = "DG926", "evaluation-changes-state", "0.1"
    run_only = True
    relation = "evaluation leaves no trace"
    VALID = [
        Valid(
            """
            import torch
            import torch.nn as nn

            class Scale(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.register_buffer("mean", torch.zeros(6))

                # dry-run: x=torch.randn(4, 6)
                def forward(self, x):
                    if self.training:
                        self.mean.lerp_(x.mean(0), 0.1)
                    return x - self.mean
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch
            import torch.nn as nn

            class Scale(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.register_buffer("mean", torch.zeros(6))

                # dry-run: x=torch.randn(4, 6)
                def forward(self, x):
                    self.mean.lerp_(x.mean(0), 0.1)
                    return x - self.mean
            """,
            at=(11, 8, 11, 39),
            severity="info",
        ),
    ]
