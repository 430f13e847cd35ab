"""Rule DG934: a result that is rounding for a good part, as a run with wider numbers shows."""

from __future__ import annotations

from typing import ClassVar

from drygrad.model import Invalid, Rule, Severity, Valid


class PrecisionLost(Rule):
    """
    ## What it does
    Runs a target with float32 inputs again in float64, operation by operation next to the first call. If a result is
    off by more than a hundredth of its largest value, it reports the first operation whose result is off although its
    operands agree. Then it shifts one input after the other a thousand standard deviations away from 0, unless
    something rules out such values; there it only reports differences of nearly equal numbers, as an info that names
    the input.

    Inherently ill-conditioned results are not reported: angles of many turns, nearly singular matrices, comparisons
    that flip; nor are results that are 0 up to rounding.

    ## Why is this bad?
    float32 has seven digits. The difference of two squares, distances computed as `x² + y² - 2xy`, or `exp(x) - 1` near
    0 lose them all if the numbers are large and the difference is small: the result is noise, or a negative variance.

    ## Example
    ```python
    variance = (x**2).mean() - x.mean() ** 2
    ```
    Use instead:
    ```python
    variance = (x - x.mean()).square().mean()
    ```
    """

    code, name, since = "DG934", "precision-lost", "0.1"
    severity: ClassVar[Severity] = "info"
    run_only = True
    relation = "precision is sufficient"
    VALID = [
        Valid(
            """
            import torch

            # dry-run: x=torch.randn(6, 50) * 0.01 + 900
            def spread(x):
                return (x - x.mean(1, keepdim=True)).square().mean(1)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch

            # dry-run: x=torch.randn(6, 50) * 0.01 + 900
            def spread(x):
                return x.square().mean(1) - x.mean(1).square()
            """,
            severity="warning",
        ),
    ]
