"""Rule DG934: a result that is rounding for a good part, as a run with wider numbers shows."""

from __future__ import annotations

from typing import ClassVar

from drygrad.model import Invalid, Rule, Severity, Valid


class PrecisionLost(Rule):
    """
    ## What it does
    Calls a target whose inputs are float32 in float64, too, operation by operation beside the first call. Where a
    result is off by more than a hundredth of its greatest number, it tells the first operation whose result is off
    though its operands agree. Then it calls it with inputs that lie a thousand deviations from 0, one after the other,
    where nothing speaks against such values; there only a difference of numbers that are nearly equal is reported, as
    an info that names the input.

    What is steep by its nature is left out: angles of many turns, matrices near a singular one, comparisons that come
    out otherwise; and what is 0 but for rounding.

    ## Why is this bad?
    A float32 has seven digits. The difference of two squares, distances as `x² + y² - 2xy`, `exp(x) - 1` near 0 have
    none of them left where the numbers are great and the difference is small: the result is noise, or negative where a
    variance cannot be.

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
    relation = "precision suffices"
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
