# source: https://github.com/modelscope/ms-swift/pull/9795
# target: PackedLossModule.channel_loss
# truth: the bounds of each packed document are read with .item() inside the loop: on a GPU two device-to-host syncs
#   per document and micro-batch, so the step time grows with the number of documents in the pack
"""Token loss of packed sequences, with a running loss for every data channel."""
from __future__ import annotations

from collections import defaultdict
from typing import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

IGNORE_INDEX = -100


def pack(samples: Sequence[tuple[Tensor, Tensor, str]]) -> dict:
    """Concatenate (input_ids, labels, channel) samples into one row without padding."""
    input_ids = torch.cat([s[0] for s in samples])
    labels = torch.cat([s[1] for s in samples])
    lengths = torch.tensor([len(s[0]) for s in samples])
    cu_seqlens = F.pad(lengths.cumsum(0), (1, 0))
    position_ids = torch.cat([torch.arange(len(s[0])) for s in samples])
    return {
        "input_ids": input_ids[None],
        "labels": labels[None],
        "position_ids": position_ids[None],
        "cu_seqlens": cu_seqlens,
        "channels": [s[2] for s in samples],
    }


class ChannelMeter:
    """Sums on the device; read out only when logged."""

    def __init__(self) -> None:
        self.total: dict[str, Tensor] = {}
        self.tokens: dict[str, Tensor] = {}

    def update(self, sums: dict[str, Tensor], counts: dict[str, Tensor]) -> None:
        for name, value in sums.items():
            self.total[name] = self.total[name] + value if name in self.total else value
            self.tokens[name] = self.tokens[name] + counts[name] if name in self.tokens else counts[name]

    def log(self) -> dict[str, float]:
        if not self.total:
            return {}
        names = list(self.total)
        means = torch.stack([self.total[n] / self.tokens[n].clamp(min=1) for n in names]).tolist()
        self.total.clear()
        self.tokens.clear()
        return {f"loss_{n}": m for n, m in zip(names, means)}


class PackedLossModule(nn.Module):
    def __init__(self, model: nn.Module, enable_channel_loss: bool = True):
        super().__init__()
        self.model = model
        self.enable_channel_loss = enable_channel_loss
        self.meter = ChannelMeter()

    def token_losses(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        shifted = F.pad(labels[:, 1:], (0, 1), value=IGNORE_INDEX)
        losses = F.cross_entropy(logits.transpose(1, 2), shifted, ignore_index=IGNORE_INDEX, reduction="none")
        return losses, (shifted != IGNORE_INDEX).to(losses.dtype)

    @torch.no_grad()
    def channel_loss(self, losses: Tensor, loss_mask: Tensor, cu_seqlens: Tensor, channels: Sequence[str]) -> None:
        sums: dict[str, list[Tensor]] = defaultdict(list)
        counts: dict[str, list[Tensor]] = defaultdict(list)
        masked = losses[0] * loss_mask[0]
        for i, name in enumerate(channels):
            start, end = cu_seqlens[i].item(), cu_seqlens[i + 1].item()  # culprit
            sums[name].append(masked[start:end].sum())
            counts[name].append(loss_mask[0, start:end].sum())
        self.meter.update(
            {n: torch.stack(v).sum() for n, v in sums.items()},
            {n: torch.stack(v).sum() for n, v in counts.items()},
        )

    def forward(self, batch: dict) -> Tensor:
        logits = self.model(batch["input_ids"], batch["position_ids"], batch["cu_seqlens"])
        losses, loss_mask = self.token_losses(logits, batch["labels"])
        if self.enable_channel_loss:
            self.channel_loss(losses.detach(), loss_mask, batch["cu_seqlens"], batch["channels"])
        return (losses * loss_mask).sum() / loss_mask.sum().clamp(min=1)
