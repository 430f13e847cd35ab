"""Rule DG924: a module that takes one number of samples only."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class BatchSizeFixed(Rule):
    """
    ## What it does
    Runs a module in eval mode with one sample fewer, and with a single one. It reports the line that then fails, or
    that drops the batch dimension.

    ## Why is this bad?
    The last batch of a loader may be smaller, and in production samples come one by one. `squeeze()` without a
    dimension removes the batch dimension of a single sample; a `view(4, -1)`, or a state created for a batch of four,
    fails with three. It is tried if a layer shows that the first dimension is the batch (a convolution, a batch norm, a
    recurrent layer, attention), and, as an info, if only the source does: `x: (batch, time)`, `b, t = x.shape`.

    ## Example
    ```python
    def forward(self, x):
        return self.head(self.body(x).squeeze())
    ```
    Use instead:
    ```python
    def forward(self, x):
        return self.head(self.body(x).flatten(1))
    ```
    """

    code, name, since = "DG924", "batch-size-fixed", "0.1"
    run_only = True
    relation = "any batch size"
    VALID = [
        Valid(
            """
            import torch
            import torch.nn as nn

            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.conv = nn.Conv2d(3, 8, 3)
                    self.head = nn.Linear(8 * 36, 4)

                # dry-run: x=torch.randn(4, 3, 8, 8)
                def forward(self, x):
                    return self.head(self.conv(x).flatten(1))
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
                    self.conv = nn.Conv2d(3, 8, 3)
                    self.head = nn.Linear(8 * 36, 4)

                # dry-run: x=torch.randn(4, 3, 8, 8)
                def forward(self, x):
                    x = self.conv(x).view(4, -1)
                    return self.head(x)
            """,
            at=(12, 12, 12, 36),
        ),
    ]
