"""Rule DG319: padding among the targets of a loss."""

from __future__ import annotations

from drygrad.model import Invalid, Rule, Valid


class PaddingCountedInLoss(Rule):
    """
    ## What it does
    Reports `cross_entropy` and `nll_loss` on targets padded by `pad_sequence` or `F.pad` without a matching
    `ignore_index`. Only a dry run can see this.

    ## Why is this bad?
    The model learns to predict padding, which is easy. The loss is small for batches that are mostly padding, and
    depends on how much a batch is padded; the printed perplexity is too good. Nothing raises.

    ## Example
    ```python
    targets = pad_sequence(sequences, batch_first=True, padding_value=PAD)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    ```
    Use instead:
    ```python
    targets = pad_sequence(sequences, batch_first=True, padding_value=PAD)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD)
    ```

    ## Fix safety
    A dry run tries `ignore_index`. Unsafe: the loss changes.
    """

    code, name, since = "DG319", "padding-counted-in-loss", "0.1"
    severity = "warning"
    run_only = True
    VALID = [
        Valid(
            """
            import torch
            import torch.nn.functional as F
            from torch.nn.utils.rnn import pad_sequence

            # dry-run: scores=torch.randn(2, 3, 5)
            def loss(scores):
                targets = pad_sequence([torch.tensor([1, 2, 3]), torch.tensor([4])], batch_first=True)
                return F.cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=0)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch
            import torch.nn.functional as F
            from torch.nn.utils.rnn import pad_sequence

            # dry-run: scores=torch.randn(2, 3, 5)
            def loss(scores):
                targets = pad_sequence([torch.tensor([1, 2, 3]), torch.tensor([4])], batch_first=True)
                return F.cross_entropy(scores.flatten(0, 1), targets.flatten())
            """,
            at=(8, 11, 8, 67),
        ),
    ]
