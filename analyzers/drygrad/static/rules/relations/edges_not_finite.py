"""Rule DG922: what is finite becomes NaN or infinite at the edge of what its inputs may be."""

from __future__ import annotations

from typing import ClassVar

from drygrad.model import Invalid, Rule, Severity, Valid


class EdgesNotFinite(Rule):
    """
    ## What it does
    Runs a target whose result was finite again with inputs at the edge of what is legal, where its operations show that
    this may matter: a sample of zeros, two equal samples, one value throughout, a mask that is False throughout, a
    class that occurs once, a batch of one, numbers of 20 and 120. It then goes backward from the result. Where NaN or
    infinity is born, forward or backward, the finding names the edge and stands under the rule that recognizes the
    cause (DG401 to DG415), else under this code.

    An edge counts only where nothing excludes it: a check that raises, a name or docstring that asks for positive or
    normalized values, inputs that are themselves all positive, of length one, or within a range. A mere infinite result
    is not reported, for the limit may be meant. Great numbers are reported only where a run in float64 gives a result
    that float32 could hold. It is a warning where data are likely to come to the edge and more is lost than the result
    of the one sample: a loss, the gradients of weights, the other samples. Else it is an info.

    ## Why is this bad?
    A batch without a single positive, a black image, a node without neighbours come up once in a thousand steps. From
    then on the loss is NaN, and with it every weight.

    ## Example
    ```python
    def masked_loss(prediction, target, mask):
        return F.mse_loss(prediction[mask], target[mask])
    ```
    Use instead:
    ```python
    def masked_loss(prediction, target, mask):
        squared = (prediction - target) ** 2 * mask
        return squared.sum() / mask.sum().clamp(min=1)
    ```
    """

    code, name, since = "DG922", "edges-not-finite", "0.1"
    severity: ClassVar[Severity] = "info"
    run_only = True
    relation = "edges stay finite"
    VALID = [
        Valid(
            """
            import torch

            # dry-run: prediction=torch.randn(4), target=torch.randn(4), mask=torch.tensor([True, False, True, True])
            def masked_loss(prediction, target, mask):
                squared = (prediction - target) ** 2 * mask
                return squared.sum() / mask.sum().clamp(min=1)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch
            import torch.nn.functional as F

            # dry-run: prediction=torch.randn(4), target=torch.randn(4), mask=torch.tensor([True, False, True, True])
            def masked_loss(prediction, target, mask):
                return F.mse_loss(prediction[mask], target[mask])
            """,
            severity="warning",
        ),
    ]
