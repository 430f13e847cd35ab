# target: Pretrainer.train_epoch
"""SimCLR pre-training: two augmented views per image, NT-Xent loss over the batch."""
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset


class TwoViews(Dataset):
    """Wraps an image tensor; every item is (2, C, H, W), two independent augmentations."""

    def __init__(self, images: Tensor, noise: float = 0.1, shift: int = 4):
        self.images, self.noise, self.shift = images, noise, shift

    def __len__(self) -> int:
        return self.images.shape[0]

    def augment(self, image: Tensor) -> Tensor:
        dy, dx = torch.randint(-self.shift, self.shift + 1, (2,)).tolist()
        image = torch.roll(image, shifts=(dy, dx), dims=(-2, -1))
        if torch.rand(()) < 0.5:
            image = image.flip(-1)
        return image + self.noise * torch.randn_like(image)

    def __getitem__(self, i: int) -> Tensor:
        return torch.stack([self.augment(self.images[i]) for _ in range(2)])


class SimCLR(nn.Module):
    def __init__(self, encoder: nn.Module, feat_dim: int, proj_dim: int = 64):
        super().__init__()
        self.encoder = encoder
        self.projector = nn.Sequential(
            nn.Linear(feat_dim, feat_dim), nn.ReLU(), nn.Linear(feat_dim, proj_dim)
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(self.projector(self.encoder(x)), dim=1)


def nt_xent(z: Tensor, temperature: float = 0.2) -> Tensor:
    """z: (2N, d), unit length, the first views of all N images followed by their second views."""
    n = z.shape[0] // 2
    logits = z @ z.t() / temperature
    itself = torch.eye(2 * n, dtype=torch.bool, device=z.device)
    logits = logits.masked_fill(itself, float("-inf"))
    partner = torch.arange(2 * n, device=z.device).roll(n)
    return F.cross_entropy(logits, partner)


class Pretrainer:
    def __init__(self, model: SimCLR, device: torch.device, lr: float = 1e-3, temperature: float = 0.2):
        self.model, self.device, self.temperature = model.to(device), device, temperature
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr, weight_decay=1e-4)

    def embed(self, views: Tensor) -> Tensor:
        """views: (N, 2, C, H, W) as collated from TwoViews."""
        return self.model(views.transpose(0, 1).flatten(0, 1))

    def step(self, views: Tensor) -> Tensor:
        z = self.embed(views.to(self.device, non_blocking=True))
        loss = nt_xent(z, self.temperature)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def train_epoch(self, loader) -> float:
        self.model.train()
        total = torch.zeros((), device=self.device)
        for views in loader:
            total += self.step(views)
        return total.item() / len(loader)
