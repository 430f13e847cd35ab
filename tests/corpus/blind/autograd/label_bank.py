# target: fit
# truth: The class embeddings are encoded once with their graph and kept on the module, so from the second training step
#   the backward runs again through the text tower's freed graph: "Trying to backward through the graph a second time
#   (or directly access saved tensors after they have already been freed)."
"""Open-vocabulary image classifier: frozen image features are scored against text embeddings of the class prompts."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class TextTower(nn.Module):
    """Bag-of-tokens text encoder with a projection into the joint space."""

    def __init__(self, vocab_size: int, width: int, joint_dim: int):
        super().__init__()
        self.tokens = nn.EmbeddingBag(vocab_size, width, mode="mean", padding_idx=0)
        self.proj = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, joint_dim))

    def forward(self, prompts: torch.Tensor) -> torch.Tensor:
        return self.proj(self.tokens(prompts))


class OpenVocabClassifier(nn.Module):
    def __init__(self, text: TextTower, feat_dim: int, joint_dim: int, prompts: torch.Tensor):
        super().__init__()
        self.text = text
        self.visual_proj = nn.Linear(feat_dim, joint_dim)
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))
        self.register_buffer("prompts", prompts)
        self._bank = None

    def class_embeddings(self) -> torch.Tensor:
        """(num_classes, joint_dim), unit length."""
        if self._bank is None:
            self._bank = F.normalize(self.text(self.prompts), dim=-1)  # error: DG108|DG113
        return self._bank

    def forward(self, feats: torch.Tensor) -> torch.Tensor:
        image = F.normalize(self.visual_proj(feats), dim=-1)
        return self.logit_scale.exp() * image @ self.class_embeddings().t()


def fit(model: OpenVocabClassifier, batches, lr: float = 1e-3, label_smoothing: float = 0.05) -> list[float]:
    """One pass over `batches` of (features, labels); returns the loss of every step."""
    device = model.prompts.device
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01)
    history = []
    model.train()
    for feats, labels in batches:
        feats, labels = feats.to(device), labels.to(device)
        loss = F.cross_entropy(model(feats), labels, label_smoothing=label_smoothing)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        history.append(loss.detach())
    return torch.stack(history).tolist() if history else []
