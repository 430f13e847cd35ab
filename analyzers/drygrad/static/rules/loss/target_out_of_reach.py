"""Rule DG329: targets that the loss does not take, or that the model can never give."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class TargetOutOfReach(Rule):
    """
    ## What it does
    Reports targets of `binary_cross_entropy_with_logits` outside [0, 1]; labels of `cosine_embedding_loss`,
    `margin_ranking_loss`, `hinge_embedding_loss` and `soft_margin_loss` other than -1 and 1; and targets of `mse_loss`,
    `smooth_l1_loss` and `huber_loss` outside the range of the `sigmoid`, `softmax`, `tanh` or `relu` that produces the
    prediction (at least 5% of them).

    ## Why is this bad?
    None of these raises. With labels -1 and 1, or a mask of 0 and 255, the binary cross-entropy has no lower bound: it
    falls below zero, and the logits diverge. With the label 0 the pairwise losses have no gradient, or none that pushes
    apart (`hinge_embedding_loss`). A decoder that ends in a sigmoid cannot produce images normalized to [-1, 1], and a
    regressor that ends in a relu cannot produce a negative target, so the error never reaches 0.

    ## Example
    ```python
    labels = torch.sign(scores)
    loss = F.binary_cross_entropy_with_logits(logits, labels)
    ```
    Use instead:
    ```python
    labels = (scores > 0).float()
    loss = F.binary_cross_entropy_with_logits(logits, labels)
    ```

    ## Fix safety
    No fix: whether to map the labels or to change the loss depends on what they mean.
    """

    code, name, since = "DG329", "target-out-of-reach", "0.1"
    severity = "warning"
    run_only = True
    VALID = [
        Valid(
            """
            import torch
            import torch.nn.functional as F

            # dry-run: logits=torch.tensor([0.5, -2.0]), labels=torch.tensor([1.0, 0.0])
            def loss_of(logits, labels):
                return F.binary_cross_entropy_with_logits(logits, labels) + F.mse_loss(torch.tanh(logits), labels)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch
            import torch.nn.functional as F

            # dry-run: logits=torch.tensor([0.5, -2.0]), labels=torch.tensor([1.0, -1.0])
            def loss_of(logits, labels):
                return F.binary_cross_entropy_with_logits(logits, labels)
            """,
            at=(6, 11, 6, 61),
        ),
    ]
