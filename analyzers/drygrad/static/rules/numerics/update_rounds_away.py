"""Rule DG423: changes of weights that half precision rounds away."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class UpdateRoundsAway(Rule):
    """
    ## What it does
    Reports float16 or bfloat16 weights that do not change when they are updated: a moving average such as
    `ema.mul_(0.999).add_(weight, alpha=0.001)`, and optimizer steps that leave nine out of ten weights with a gradient
    unchanged. Only a dry run can see this.

    ## Why is this bad?
    A bfloat16 number only changes if the update exceeds 0.2 to 0.4 percent of it, a float16 number if it exceeds 0.02
    to 0.05 percent. Smaller updates are rounded away in every step, so nothing accumulates: the average keeps its first
    value, and the model stops learning at small learning rates. Keep averages and weights in float32; `autocast` still
    computes in half precision.

    ## Example
    ```python
    ema = copy.deepcopy(model.bfloat16())
    ```
    Use instead:
    ```python
    ema = copy.deepcopy(model).float()
    ```

    ## Fix safety
    No fix: float32 weights take memory, and the program has to keep them somewhere.
    """

    code, name, since = "DG423", "update-rounds-away", "0.1"
    severity = "warning"
    run_only = True
    VALID = [
        Valid(
            """
            import torch
            from torch import nn

            # dry-run: ema=nn.Linear(8, 8), model=nn.Linear(8, 8)
            @torch.no_grad()
            def average(ema, model):
                for mine, its in zip(ema.parameters(), model.parameters()):
                    mine.mul_(0.999).add_(its, alpha=0.001)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch
            from torch import nn

            # dry-run: ema=nn.Linear(8, 8).bfloat16(), model=nn.Linear(8, 8).bfloat16()
            @torch.no_grad()
            def average(ema, model):
                for mine, its in zip(ema.parameters(), model.parameters()):
                    mine.mul_(0.999).add_(its, alpha=0.001)
            """
        ),
    ]
