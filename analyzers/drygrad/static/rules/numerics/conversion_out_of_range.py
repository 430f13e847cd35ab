"""Rule DG420: numbers that the integers they are converted to cannot hold."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class ConversionOutOfRange(Rule):
    """
    ## What it does
    Reports floats that are converted to integers which cannot hold them: beyond the range of the dtype, infinite, or
    NaN. A dry run sees it.

    ## Why is this bad?
    C++ leaves open what becomes of such a number, and CPU and GPU make different ones of it, without an error. A pixel
    of 260 or -3 becomes 4 or 253 in uint8: bright spots turn dark. A quantised weight beyond 127 becomes negative.
    `clamp` before the conversion gives the nearest number that there is.

    ## Example
    ```python
    image = (x * 255).to(torch.uint8)
    ```
    Use instead:
    ```python
    image = (x * 255).round().clamp(0, 255).to(torch.uint8)
    ```

    ## Fix safety
    No fix: whether to limit, to scale or to take another dtype depends on what the numbers are.
    """

    code, name, since = "DG420", "conversion-out-of-range", "0.1"
    severity = "warning"
    run_only = True
    VALID = [
        Valid(
            """
            import torch

            # dry-run: x=torch.tensor([-0.2, 0.5, 1.3])
            def image(x):
                return (x * 255).clamp(0, 255).to(torch.uint8)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch

            # dry-run: x=torch.tensor([-0.2, 0.5, 1.3])
            def image(x):
                return (x * 255).to(torch.uint8)
            """
        ),
    ]
