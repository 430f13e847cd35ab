"""Rule DG933: what a module needs for its results, and its state does not have."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class StateLost(Rule):
    """
    ## What it does
    Creates two modules the way the program creates one, each with its own random numbers, calls the first in training
    mode, loads its `state_dict` into the second, and compares their results in eval mode. Where they differ, it tells
    the attribute without which they do: one that is drawn at random, computed from weights when the module is made, or
    changed in training, and is neither parameter nor buffer. It also tells of a state that a call has changed so that a
    new module refuses it. Layers in a plain list stand under DG741, tensors that learn under DG744.

    ## Why is this bad?
    Checkpoints lack what is no parameter, no buffer and no part of a registered module. Training shows nothing; the
    model that is loaded tomorrow is another one.

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
