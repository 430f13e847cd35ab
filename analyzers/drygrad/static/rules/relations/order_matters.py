"""Rule DG936: a sample whose result depends on its place in the batch."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class OrderMatters(Rule):
    """
    ## What it does
    Calls a module in eval mode with the samples of its batch in another order. If the result of a sample changes,
    although samples do not affect one another (DG923 covers that), it reports the first operation that depends on the
    order. A loss, a single number, must not change at all. It is tried if a layer shows that the first dimension is the
    batch, and, as an info, if only the source does: `x: (batch, time)`, `b, t = x.shape`.

    ## Why is this bad?
    The order within a batch has no meaning. With positions added along the batch instead of the sequence, or a mask
    indexed by sample, nothing raises, and the same sample gets a different answer at another place in the batch.

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
