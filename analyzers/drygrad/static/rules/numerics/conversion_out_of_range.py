"""Rule DG420: numbers that the integers they are converted to cannot hold."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class ConversionOutOfRange(Rule):
    """
    ## What it does
    Reports conversions of floats to an integer dtype that cannot hold them: out of range, infinite, or NaN. Only a dry
    run can see this.

    ## Why is this bad?
    Such a conversion is undefined behavior in C++, and CPU and GPU give different values, without an error. In uint8 a
    pixel of 260 becomes 4 and one of -3 becomes 253: bright spots turn dark. A quantized weight above 127 becomes
    negative. `clamp` before the conversion gives the nearest valid number.

    ## Example
    ```python
    image = (x * 255).to(torch.uint8)
    ```
    Use instead:
    ```python
    image = (x * 255).round().clamp(0, 255).to(torch.uint8)
    ```

    ## Fix safety
    No fix: whether to clamp, to scale or to use another dtype depends on what the numbers mean.
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
