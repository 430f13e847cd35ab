"""Rule DG923: a sample whose result depends on the other samples of its batch."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class SamplesMixed(Rule):
    """
    ## What it does
    Runs a module in evaluation mode on a batch, changes one sample, and runs it again. Where the results of the other
    samples change, it tells the first operation that lets one sample reach another.

    ## Why is this bad?
    In evaluation a sample's result must not depend on what else is in its batch: with another batch size, or in
    another order, the same image gets another answer. A softmax or a mean over the batch, a `view` where axes were to
    be exchanged, or a recurrent layer without `batch_first=True` runs without an error and trains badly.

    It is tried where a layer says that the first axis is a batch: a convolution, a batch norm, a recurrent layer,
    attention. Where only the text does (`x: (batch, time)`, `b, t = x.shape`), of functions too, it is an info, and
    none if name or text say that samples are meant to meet: "contrastive", "normalize", "over the batch".

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
