"""Rule DG411: a number beyond what float16 can hold."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class Float16Overflow(Rule):
    """
    ## What it does
    Reports the operation whose result exceeds 65504, the largest float16 number, if it reaches a loss, a gradient
    without a `GradScaler`, a parameter or the return value. Only a dry run can see this.

    ## Why is this bad?
    The number becomes infinite, and soon NaN, without an error. Common places are sums of squares, distances, logits
    before a softmax, and an `epsilon` that is 0 in float16 (Adam's 1e-8). bfloat16 has the range of float32.

    ## Example
    ```python
    energy = x.half().square().sum()
    ```
    Use instead:
    ```python
    energy = x.float().square().sum()
    ```
    """

    code, name, since = "DG411", "float16-overflow", "0.1"
    severity = "error"
    run_only = True
    VALID = [
        Valid(
            """
            import torch

            # dry-run: x=torch.full((4,), 300.0, requires_grad=True)
            def energy(x):
                x.half().float().square().sum().backward()
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch

            # dry-run: x=torch.full((4,), 300.0, requires_grad=True)
            def energy(x):
                x.half().square().sum().backward()
            """
        ),
    ]
