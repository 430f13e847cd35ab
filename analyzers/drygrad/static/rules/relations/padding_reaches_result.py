"""Rule DG927: a result that depends on how much padding follows what is real."""

from __future__ import annotations

from typing import ClassVar

from drygrad.model import Invalid, Rule, Severity, Valid


class PaddingReachesResult(Rule):
    """
    ## What it does
    Calls a target with sequences of which the last positions are padding, and with the same sequences cut off where the
    padding begins. Where what is real comes to something else, it tells the first operation that lets padding in.

    It is tried only where the program itself shows what is padded: a mask whose values are those of sequences that end,
    or whose name says it (`attention_mask`, `key_padding_mask`), lengths that `pack_padded_sequence` or a comparison
    with positions reads, an embedding with a `padding_idx`. Padding is zeros, or the class that the embedding has for
    it. A module is in evaluation. It is a warning where an operation over all positions (a mean, a softmax, a read of
    the last one) lets it into the first result, else an info: a convolution mixes a little padding in at the border,
    which many accept, and padding that only the class of an embedding marks may never come.

    ## Why is this bad?
    How much padding a sample has depends on the longest one of its batch. A mean over padding, weights that are
    masked after the softmax, a state that is read at the padding give the same text another answer in another batch.

    ## Example
    ```python
    def forward(self, x, padding_mask):
        x = self.encoder(x, src_key_padding_mask=padding_mask)
        return self.head(x.mean(1))
    ```
    Use instead:
    ```python
    def forward(self, x, padding_mask):
        x = self.encoder(x, src_key_padding_mask=padding_mask)
        real = ~padding_mask[..., None]
        return self.head((x * real).sum(1) / real.sum(1))
    ```
    """

    code, name, since = "DG927", "padding-reaches-result", "0.1"
    severity: ClassVar[Severity] = "info"
    run_only = True
    relation = "padding is silent"
    VALID = [
        Valid(
            """
            import torch
            import torch.nn as nn

            class Words(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.words = nn.Embedding(20, 8, padding_idx=0)

                # dry-run: ids=torch.tensor([[3, 5, 7], [4, 0, 0]])
                def forward(self, ids):
                    return self.words(ids).sum(1) / (ids != 0).sum(1, keepdim=True)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch
            import torch.nn as nn

            class Words(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.words = nn.Embedding(20, 8, padding_idx=0)

                # dry-run: ids=torch.tensor([[3, 5, 7], [4, 0, 0]])
                def forward(self, ids):
                    return self.words(ids).mean(1)
            """,
            severity="warning",
        ),
    ]
