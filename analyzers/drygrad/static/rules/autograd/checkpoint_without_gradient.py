"""Rule DG119: a checkpoint that cuts the graph of what runs in it."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class CheckpointWithoutGradient(Rule):
    """
    ## What it does
    Reports `torch.utils.checkpoint.checkpoint(..., use_reentrant=True)` where none of the inputs requires grad.

    ## Why is this bad?
    The reentrant checkpoint is one node of the graph, with the inputs as its only way in. Where none of them requires
    grad there is no node, and the parameters of what runs inside get no gradients: these layers never learn. It
    happens to the first block, whose input is data, and behind frozen layers.

    ## Example
    ```python
    h = checkpoint(self.block, x, use_reentrant=True)
    ```
    Use instead:
    ```python
    h = checkpoint(self.block, x, use_reentrant=False)
    ```

    ## Fix safety
    A dry run proposes and tries `use_reentrant=False`. Unsafe: what was not trained is trained then.
    """

    code, name, since = "DG119", "checkpoint-without-gradient", "0.1"
    severity = "error"
    run_only = True
    VALID = [
        Valid(
            """
            import torch
            from torch import nn
            from torch.utils.checkpoint import checkpoint

            # dry-run: x=torch.randn(2, 4)
            def run(x):
                return checkpoint(nn.Linear(4, 4), x, use_reentrant=False).sum()
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch
            from torch import nn
            from torch.utils.checkpoint import checkpoint

            # dry-run: x=torch.randn(2, 4)
            def run(x):
                return checkpoint(nn.Linear(4, 4), x, use_reentrant=True).sum()
            """,
            at=(7, 11, 7, 61),
        ),
    ]
