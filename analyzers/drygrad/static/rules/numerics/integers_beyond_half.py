"""Rule DG421: integers that fall together in half precision."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class IntegersBeyondHalf(Rule):
    """
    ## What it does
    Reports different integers that become equal when they are converted to float16 or bfloat16: positions, time steps,
    indices. Only a dry run can see this. It is a warning for consecutive numbers, otherwise an info.

    ## Why is this bad?
    bfloat16 has a significand of eight bits: it represents every integer up to 256, every second one up to 512, every
    eighth around 1500. In float16 every integer up to 2048 is exact. Position embeddings computed from rounded
    positions give neighbors the same angles, and high frequencies become noise; different diffusion time steps become
    one. Compute angles in float32, and convert their sine and cosine.

    ## Example
    ```python
    position = torch.arange(length).to(x.dtype)
    angle = position[:, None] * frequency
    ```
    Use instead:
    ```python
    position = torch.arange(length).float()
    angle = position[:, None] * frequency.float()
    table = angle.cos().to(x.dtype)
    ```

    ## Fix safety
    No fix: the numbers can stay integers or become float32, and the code that uses them has to match.
    """

    code, name, since = "DG421", "integers-beyond-half", "0.1"
    severity = "warning"
    run_only = True
    VALID = [
        Valid(
            """
            import torch

            # dry-run: x=torch.ones(256, 4, dtype=torch.bfloat16)
            def positions(x):
                return torch.arange(len(x)).to(x.dtype), torch.arange(1000).float().cos().to(x.dtype)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch

            # dry-run: x=torch.ones(300, 4, dtype=torch.bfloat16)
            def positions(x):
                return torch.arange(len(x)).to(x.dtype)
            """
        ),
    ]
