"""Rule DG927: a result that depends on how much padding follows what is real."""

from __future__ import annotations

from typing import ClassVar

from drygrad.model import Invalid, Rule, Severity, Valid


class PaddingReachesResult(Rule):
    """
    ## What it does
    Calls a target on sequences whose last positions are padding, and on the same sequences cut off where the padding
    begins. If the results at real positions differ, it reports the first operation that lets padding in.

    It is only tried if the program shows what is padded: a mask whose values or name (`attention_mask`,
    `key_padding_mask`) are those of a padding mask, lengths that `pack_padded_sequence` or a comparison with positions
    reads, an embedding with a `padding_idx`. Padding is zeros, or the `padding_idx` of the embedding; modules are in
    eval mode.

    It is a warning if an operation over all positions (a mean, a softmax, reading the last one) lets padding into the
    first result. Otherwise it is an info: a convolution mixes in a little padding at the border, which many accept, and
    padding that only an embedding's `padding_idx` suggests may never occur.

    ## Why is this bad?
    How much a sample is padded depends on the longest one in its batch. With a mean over padding, weights masked after
    the softmax, or a state read at a padded position, the same text gets a different answer in another batch.

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
