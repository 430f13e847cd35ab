"""Rule DG423: changes of weights that half precision rounds away."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class UpdateRoundsAway(Rule):
    """
    ## What it does
    Reports weights of float16 or bfloat16 that stay as they are though they are changed: a moving average by
    `ema.mul_(0.999).add_(weight, alpha=0.001)`, and steps of an optimizer that leave nine of ten weights with a
    gradient as they were. A dry run sees it.

    ## Why is this bad?
    bfloat16 has eight bits for the digits: a number changes only if it is changed by more than 0.2 to 0.4 percent, in
    float16 by 0.02 to 0.05 percent. Anything smaller is rounded away on every step, so nothing accumulates: the average
    keeps its first value, and the model stops learning when the learning rate is small. Averages and weights belong in
    float32; `autocast` computes in half precision with such weights.

    ## Example
    ```python
    ema = copy.deepcopy(model.bfloat16())
    ```
    Use instead:
    ```python
    ema = copy.deepcopy(model).float()
    ```

    ## Fix safety
    No fix: weights kept in float32 need memory, and a place to be kept in.
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
