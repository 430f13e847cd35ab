# source: https://github.com/microsoft/unilm/pull/999
# target: AudioTransformerEncoder.extract_features
# truth: the convolutional position embedding is added to its own input in place; the convolution has saved that input
#   for its weight gradient, so fine-tuning stops in backward with the inplace modification error
import math
from typing import List, Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor


class SamePad(nn.Module):
    def __init__(self, kernel_size: int, causal: bool = False):
        super().__init__()
        self.remove = kernel_size - 1 if causal else (1 if kernel_size % 2 == 0 else 0)

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, : -self.remove] if self.remove > 0 else x


class EncoderLayer(nn.Module):
    def __init__(self, dim: int, ffn_dim: int, heads: int, dropout: float = 0.0):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(dim, heads, dropout=dropout, batch_first=True)
        self.norm1 = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, ffn_dim)
        self.fc2 = nn.Linear(ffn_dim, dim)
        self.norm2 = nn.LayerNorm(dim)

    def forward(self, x: Tensor, padding_mask: Optional[Tensor]) -> Tensor:
        residual = x
        x, _ = self.self_attn(x, x, x, key_padding_mask=padding_mask, need_weights=False)
        x = self.norm1(residual + x)
        return self.norm2(x + self.fc2(F.gelu(self.fc1(x))))


class AudioTransformerEncoder(nn.Module):
    def __init__(self, dim: int = 16, depth: int = 2, heads: int = 2, conv_pos: int = 8, conv_pos_groups: int = 4,
                 dropout: float = 0.0, layer_norm_first: bool = False):
        super().__init__()
        self.dropout = dropout
        self.layer_norm_first = layer_norm_first
        conv = nn.Conv1d(dim, dim, kernel_size=conv_pos, padding=conv_pos // 2, groups=conv_pos_groups)
        nn.init.normal_(conv.weight, mean=0, std=math.sqrt(4.0 / (conv_pos * dim)))
        nn.init.constant_(conv.bias, 0)
        self.pos_conv = nn.Sequential(conv, SamePad(conv_pos), nn.GELU())
        self.layers = nn.ModuleList(EncoderLayer(dim, dim * 2, heads, dropout) for _ in range(depth))
        self.layer_norm = nn.LayerNorm(dim)

    def forward(self, x: Tensor, padding_mask: Optional[Tensor] = None) -> Tuple[Tensor, List[Tensor]]:
        x, results = self.extract_features(x, padding_mask)
        if self.layer_norm_first:
            x = self.layer_norm(x)
        return x, results

    def extract_features(self, x: Tensor, padding_mask: Optional[Tensor] = None) -> Tuple[Tensor, List[Tensor]]:
        if padding_mask is not None:
            x = x.masked_fill(padding_mask.unsqueeze(-1), 0.0)
        x_conv = self.pos_conv(x.transpose(1, 2)).transpose(1, 2)
        x += x_conv  # culprit
        if not self.layer_norm_first:
            x = self.layer_norm(x)
        x = F.dropout(x, p=self.dropout, training=self.training)
        results: List[Tensor] = []
        for layer in self.layers:
            x = layer(x, padding_mask)
            results.append(x)
        return x, results


class AudioClassifier(nn.Module):
    def __init__(self, n_mels: int = 20, dim: int = 16, patch: int = 4, num_classes: int = 3):
        super().__init__()
        self.patch_embedding = nn.Conv2d(1, dim, kernel_size=(patch, n_mels), stride=(patch, n_mels), bias=False)
        self.post_extract_proj = nn.Linear(dim, dim)
        self.encoder = AudioTransformerEncoder(dim)
        self.predictor = nn.Linear(dim, num_classes)

    def forward(self, fbank: Tensor, padding_mask: Optional[Tensor] = None) -> Tensor:
        features = self.patch_embedding(fbank.unsqueeze(1)).flatten(2).transpose(1, 2)
        features = self.post_extract_proj(features)
        x, _ = self.encoder(features, padding_mask)
        return self.predictor(x.mean(dim=1))


def finetune_step(model: AudioClassifier, optimizer: torch.optim.Optimizer, fbank: Tensor, labels: Tensor) -> float:
    model.train()
    loss = F.cross_entropy(model(fbank), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()
