"""Rule DG922: what is finite becomes NaN or infinite at the edge of what its inputs may be."""

from __future__ import annotations

from typing import ClassVar

from drygrad.model import Invalid, Rule, Severity, Valid


class EdgesNotFinite(Rule):
    """
    ## What it does
    Runs a target with a finite result again on legal edge cases that its operations suggest: a sample of zeros, two
    equal samples, a constant input, a mask that is all False, a sample that is all padding, a length of 0, a class that
    occurs once, a batch of one, values of 20 and 120. It then backpropagates from the result. If NaN or infinity
    appears, forward or backward, the finding names the edge case and has the code of its cause (DG401 to DG415),
    otherwise this code. Padding is the number that the code compares integers with, such as `ids != 0`.

    An edge case only counts if nothing rules it out: a check that raises, a name or docstring that asks for positive or
    normalized values, inputs that are all positive, of length one, or within a range. An infinite result without NaN is
    not reported, since that limit may be intended. Large values are only reported if a run in float64 gives a result
    that float32 can represent. The finding is a warning if real data is likely to hit the edge and the damage goes
    beyond that sample's own result: a loss, the gradients of weights, other samples. Otherwise it is an info.

    ## Why is this bad?
    A batch without a positive, a black image, or a node without neighbors turns up once in a thousand steps. From then
    on the loss is NaN, and so is every weight.

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
