"""Rule DG923: a sample whose result depends on the other samples of its batch."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class SamplesMixed(Rule):
    """
    ## What it does
    Runs a module in eval mode on a batch, changes one sample, and runs it again. If the results of other samples
    change, it reports the first operation that lets one sample affect another.

    ## Why is this bad?
    In eval mode the result of a sample must not depend on the rest of its batch: with another batch size or order, the
    same image gets a different answer. A softmax or mean over the batch, a `view` instead of a transpose, or a
    recurrent layer without `batch_first=True` runs without an error and trains badly.

    It is tried if a layer shows that the first dimension is the batch: a convolution, a batch norm, a recurrent layer,
    attention. If only the source shows it (`x: (batch, time)`, `b, t = x.shape`, in functions too), or a shuffled
    `DataLoader` that stacks the inputs, the finding is an info. Nothing is reported if a name or the source says that
    samples are meant to interact: "contrastive", "normalize", "over the batch".

    ## Example
    ```python
    def forward(self, x):
        features = self.conv(x).mean((2, 3))
        return self.head(features).softmax(0)
    ```
    Use instead:
    ```python
    def forward(self, x):
        features = self.conv(x).mean((2, 3))
        return self.head(features).softmax(1)
    ```
    """

    code, name, since = "DG923", "samples-mixed", "0.1"
    run_only = True
    relation = "samples stand alone"
    VALID = [
        Valid(
            """
            import torch
            import torch.nn as nn

            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.conv = nn.Conv2d(3, 8, 3)
                    self.head = nn.Linear(8, 4)

                # dry-run: x=torch.randn(4, 3, 9, 9)
                def forward(self, x):
                    features = self.conv(x).mean((2, 3))
                    return self.head(features).softmax(1)
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
                    self.head = nn.Linear(8, 4)

                # dry-run: x=torch.randn(4, 3, 9, 9)
                def forward(self, x):
                    features = self.conv(x).mean((2, 3))
                    centre = features.mean(0)
                    return self.head(features - centre)
            """,
            at=(13, 17, 13, 33),
        ),
    ]
