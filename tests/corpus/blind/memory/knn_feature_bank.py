# target: KNNMonitor.accuracy
# truth: The bank stores tokens[:, 0], a view that keeps the whole (B, 1 + n_patches, dim) token tensor's storage alive,
#   so filling the bank holds 1 + n_patches times the memory it needs (65x here, 197x for ViT-B/16) and runs out of GPU
#   memory on a real training set.
"""k-NN monitor for self-supervised ViT pre-training: feature bank and weighted vote (DINO style)."""
import torch
import torch.nn.functional as F
from torch import Tensor, nn


class ViTEncoder(nn.Module):
    """Returns all tokens (B, 1 + n_patches, dim); token 0 is the class token."""

    def __init__(self, size=32, patch=4, dim=64, depth=2, heads=4):
        super().__init__()
        self.embed = nn.Conv2d(3, dim, patch, stride=patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(0.02 * torch.randn(1, (size // patch) ** 2 + 1, dim))
        layer = nn.TransformerEncoderLayer(
            dim, heads, 4 * dim, dropout=0.0, batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(dim)

    def forward(self, images: Tensor) -> Tensor:
        x = self.embed(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], dim=1) + self.pos
        return self.norm(self.blocks(x))


class FeatureBank:
    """Class-token features of a whole training set, kept on the device of the encoder."""

    def __init__(self, encoder: nn.Module, device: torch.device):
        self.encoder, self.device = encoder, device
        self.chunks, self.labels = [], []

    @torch.no_grad()
    def fill(self, loader) -> "FeatureBank":
        self.encoder.eval()
        for images, labels in loader:
            tokens = self.encoder(images.to(self.device, non_blocking=True))
            self.chunks.append(tokens[:, 0])  # error: DG511
            self.labels.append(labels.to(self.device, non_blocking=True))
        return self

    def tensors(self):
        feats = F.normalize(torch.cat(self.chunks), dim=1)
        return feats, torch.cat(self.labels)


class KNNMonitor:
    def __init__(self, n_classes: int, k: int = 20, temperature: float = 0.07):
        self.n_classes, self.k, self.temperature = n_classes, k, temperature

    def predict(self, query: Tensor, feats: Tensor, labels: Tensor) -> Tensor:
        sim, idx = (F.normalize(query, dim=1) @ feats.t()).topk(min(self.k, feats.shape[0]), dim=1)
        weights = (sim / self.temperature).exp()
        votes = weights.new_zeros(query.shape[0], self.n_classes)
        return votes.scatter_add(1, labels[idx], weights).argmax(dim=1)

    @torch.no_grad()
    def accuracy(self, encoder: nn.Module, train_loader, test_loader, device: torch.device) -> float:
        was_training = encoder.training
        feats, labels = FeatureBank(encoder, device).fill(train_loader).tensors()
        correct, seen = torch.zeros((), device=device), 0
        for images, targets in test_loader:
            query = encoder(images.to(device))[:, 0]
            correct += (self.predict(query, feats, labels) == targets.to(device)).sum()
            seen += targets.numel()
        encoder.train(was_training)
        return correct.item() / seen
