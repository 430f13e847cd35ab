# source: https://github.com/TinyLLaVA/TinyLLaVA_Factory/issues/17
# target: TinyVLM.forward
# truth: the tower's forward always runs under no_grad, so with tune_vision_tower=True its parameters are trainable and
#   in the optimizer but never get a gradient: the vision encoder silently stays as it was
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F

IGNORE_INDEX = -100


@dataclass
class VLMArguments:
    vocab_size: int = 128
    hidden_size: int = 64
    vision_hidden: int = 48
    image_size: int = 32
    patch_size: int = 8
    select_layer: int = -2
    select_feature: str = "patch"
    tune_vision_tower: bool = False
    tune_connector: bool = True
    vision_lr: Optional[float] = None


class VisionTower(nn.Module):
    def __init__(self, args: VLMArguments):
        super().__init__()
        self.select_layer = args.select_layer
        self.select_feature = args.select_feature
        dim = args.vision_hidden
        n_patches = (args.image_size // args.patch_size) ** 2
        self.patch = nn.Conv2d(3, dim, args.patch_size, stride=args.patch_size)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(torch.randn(1, n_patches + 1, dim) * 0.02)
        self.blocks = nn.ModuleList(
            [nn.TransformerEncoderLayer(dim, 4, dim * 2, dropout=0.0, batch_first=True) for _ in range(3)]
        )

    def _select(self, hidden_states):
        features = hidden_states[self.select_layer]
        if self.select_feature == "patch":
            return features[:, 1:]
        if self.select_feature == "cls_patch":
            return features
        raise ValueError(f"Unexpected select feature: {self.select_feature}")

    @torch.no_grad()  # culprit
    def forward(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.size(0), -1, -1), x], dim=1) + self.pos
        hidden_states = [x]
        for blk in self.blocks:
            x = blk(x)
            hidden_states.append(x)
        return self._select(hidden_states)


class TinyVLM(nn.Module):
    def __init__(self, args: VLMArguments):
        super().__init__()
        self.args = args
        self.vision_tower = VisionTower(args)
        self.connector = nn.Sequential(
            nn.Linear(args.vision_hidden, args.hidden_size), nn.GELU(), nn.Linear(args.hidden_size, args.hidden_size)
        )
        self.embed = nn.Embedding(args.vocab_size, args.hidden_size)
        self.decoder = nn.TransformerEncoderLayer(args.hidden_size, 4, args.hidden_size * 2, dropout=0.0, batch_first=True)
        self.lm_head = nn.Linear(args.hidden_size, args.vocab_size, bias=False)
        self.vision_tower.requires_grad_(args.tune_vision_tower)
        self.connector.requires_grad_(args.tune_connector)

    def encode_images(self, images):
        return self.connector(self.vision_tower(images))

    def forward(self, images, input_ids, labels=None):
        visual = self.encode_images(images)
        hidden = torch.cat([visual, self.embed(input_ids)], dim=1)
        length = hidden.size(1)
        mask = torch.ones(length, length, dtype=torch.bool, device=hidden.device).triu(1)
        logits = self.lm_head(self.decoder(hidden, src_mask=mask))[:, visual.size(1) :]
        if labels is None:
            return logits, None
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=IGNORE_INDEX)
        return logits, loss


def build_optimizer(model: TinyVLM, lr: float = 1e-3):
    tower = [p for p in model.vision_tower.parameters() if p.requires_grad]
    rest = [p for n, p in model.named_parameters() if p.requires_grad and not n.startswith("vision_tower.")]
    groups = [{"params": rest, "lr": lr}]
    if tower:
        groups.append({"params": tower, "lr": model.args.vision_lr or lr})
    return torch.optim.AdamW(groups)
