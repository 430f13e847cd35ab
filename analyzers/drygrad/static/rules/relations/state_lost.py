"""Rule DG933: what a module needs for its results, and its state does not have."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class StateLost(Rule):
    """
    ## What it does
    Creates two modules the way the program does, with different random numbers, calls the first in training mode, loads
    its `state_dict` into the second, and compares their results in eval mode. If they differ, it reports the attribute
    responsible: one that is neither parameter nor buffer, and is drawn at random, computed from weights in the
    constructor, or changed in training. It also reports state that a call has changed so that a new module rejects it.
    Layers in a plain list are reported as DG741, learnable tensors as DG744.

    ## Why is this bad?
    Checkpoints only contain parameters, buffers and registered modules. Training shows nothing; the model that you load
    tomorrow is a different one.

    ## Example
    ```python
    class FourierFeatures(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.freqs = torch.randn(2, width)

        def forward(self, x):
            return torch.sin(x @ self.freqs)
    ```
    Use instead:
    ```python
    class FourierFeatures(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.register_buffer("freqs", torch.randn(2, width))

        def forward(self, x):
            return torch.sin(x @ self.freqs)
    ```
    """

    code, name, since = "DG933", "state-lost", "0.1"
    run_only = True
    relation = "state survives"
    VALID = [
        Valid(
            """
            import torch
            import torch.nn as nn

            class Features(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.register_buffer("freqs", torch.randn(2, 8))

                # dry-run: x=torch.randn(4, 2)
                def forward(self, x):
                    return torch.sin(x @ self.freqs)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch
            import torch.nn as nn

            class Features(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.freqs = torch.randn(2, 8)

                # dry-run: x=torch.randn(4, 2)
                def forward(self, x):
                    return torch.sin(x @ self.freqs)
            """,
        ),
    ]
