"""Rule DG936: a sample whose result depends on its place in the batch."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class OrderMatters(Rule):
    """
    ## What it does
    Calls a module in evaluation with the samples of its batch in another order. Where a sample comes to something
    else, though the samples do not change one another (DG923 tells of those), it tells the first operation behind the
    results that does not keep to the order. A loss, a single number, must not change at all. It is tried where a layer
    says that the first axis is a batch, and, as an info, where only the text does: `x: (batch, time)`,
    `b, t = x.shape`.

    ## Why is this bad?
    The order of a batch means nothing. Positions that are added along the batch instead of the sequence, or a mask by
    the number of the sample, run without an error, and give the same sample another answer at another place.

    ## Example
    ```python
    x = x + self.positions[: x.size(0)].unsqueeze(1)
    return self.encoder(x)
    ```
    Use instead:
    ```python
    x = x + self.positions[: x.size(1)]
    return self.encoder(x)
    ```
    """

    code, name, since = "DG936", "order-matters", "0.1"
    run_only = True
    relation = "order is free"
    VALID = [
        Valid(
            """
            import torch
            import torch.nn as nn

            class Encoder(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.register_buffer("positions", torch.randn(64, 8))
                    self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

                # dry-run: x=torch.randn(2, 6, 8)
                def forward(self, x):
                    return self.layer(x + self.positions[: x.size(1)])
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch
            import torch.nn as nn

            class Encoder(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.register_buffer("positions", torch.randn(64, 8))
                    self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

                # dry-run: x=torch.randn(2, 6, 8)
                def forward(self, x):
                    return self.layer(x + self.positions[: x.size(0)].unsqueeze(1))
            """,
        ),
    ]
