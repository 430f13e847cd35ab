"""Rule DG421: integers that fall together in half precision."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class IntegersBeyondHalf(Rule):
    """
    ## What it does
    Reports different integers that become the same number when they are converted to float16 or bfloat16: positions,
    time steps, indices. A dry run sees it. Where they count one by one, it is a warning, else an info.

    ## Why is this bad?
    bfloat16 has eight bits for the digits: it counts in ones up to 256, in twos up to 512, in eights at 1500. In
    float16 the ones end at 2048. A position embedding that is computed of such positions gives the same angles to
    neighbours, and those of high frequency are noise; time steps of a diffusion fall together. Angles are computed in
    float32, and their sine and cosine converted afterwards.

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
    No fix: the numbers can stay integers or become float32, and what follows must agree.
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
