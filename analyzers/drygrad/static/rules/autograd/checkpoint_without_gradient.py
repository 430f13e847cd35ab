"""Rule DG119: a checkpoint that cuts the graph of what runs in it."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class CheckpointWithoutGradient(Rule):
    """
    ## What it does
    Reports `torch.utils.checkpoint.checkpoint(..., use_reentrant=True)` if none of its inputs requires grad.

    ## Why is this bad?
    A reentrant checkpoint is a single node in the graph, connected only through its inputs. If none of them requires
    grad, there is no node, and the parameters inside get no gradients: these layers never learn, and torch only warns.
    This affects a first block, whose input is data, and blocks behind frozen layers.

    ## Example
    ```python
    h = checkpoint(self.block, x, use_reentrant=True)
    ```
    Use instead:
    ```python
    h = checkpoint(self.block, x, use_reentrant=False)
    ```

    ## Fix safety
    A dry run tries `use_reentrant=False`. Unsafe: layers that were not trained now are.
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
