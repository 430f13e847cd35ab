# target: script
# truth: The loss is NaN from the first step (and all weights after it): exp() of similarities divided by a temperature of 0.01 reaches exp(100), which overflows float32, and inf / inf is NaN; the log-sum-exp has to be computed in a stable way.
"""SimCLR pre-training on unlabelled satellite tiles."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

CONFIG = {
    "data": {"n_tiles": 256, "bands": 4, "size": 32},
    "model": {"width": 16, "proj_dim": 64},
    "loss": {"temperature": 0.01},
    "optim": {"lr": 1e-3, "weight_decay": 1e-4},
    "epochs": 2,
    "batch_size": 32,
}


class TileDataset(Dataset):
    def __init__(self, n_tiles, bands, size):
        self.tiles = torch.rand(n_tiles, bands, size, size)

    def __len__(self):
        return len(self.tiles)

    @staticmethod
    def augment(tile):
        if torch.rand(()) < 0.5:
            tile = tile.flip(-1)
        tile = torch.rot90(tile, int(torch.randint(4, ())), dims=(-2, -1))
        return tile * (0.8 + 0.4 * torch.rand(tile.size(0), 1, 1)) + 0.02 * torch.randn_like(tile)

    def __getitem__(self, i):
        return self.augment(self.tiles[i]), self.augment(self.tiles[i])


class Encoder(nn.Module):
    def __init__(self, bands, width, proj_dim):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(bands, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        )
        self.projector = nn.Sequential(
            nn.Linear(8 * width, 8 * width), nn.ReLU(), nn.Linear(8 * width, proj_dim)
        )

    def forward(self, x):
        return F.normalize(self.projector(self.backbone(x)), dim=1)


def nt_xent(z1, z2, temperature):
    """Normalised-temperature cross entropy over 2N views (Chen et al., 2020)."""
    n = z1.size(0)
    z = torch.cat([z1, z2])
    sim = z @ z.t() / temperature
    self_mask = torch.eye(2 * n, dtype=torch.bool, device=z.device)
    sim = sim.masked_fill(self_mask, float("-inf"))
    partner = torch.arange(2 * n, device=z.device).roll(n)
    positive = sim[torch.arange(2 * n, device=z.device), partner]
    return -torch.log(positive.exp() / sim.exp().sum(dim=1)).mean()  # error: DG405|DG410|DG414


def main(config):
    torch.manual_seed(0)
    loader = DataLoader(TileDataset(**config["data"]), config["batch_size"], shuffle=True, drop_last=True)
    encoder = Encoder(config["data"]["bands"], **config["model"])
    optimizer = torch.optim.AdamW(encoder.parameters(), **config["optim"])
    for epoch in range(config["epochs"]):
        for step, (view1, view2) in enumerate(loader):
            loss = nt_xent(encoder(view1), encoder(view2), **config["loss"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: last loss {loss.item():.4f}")


if __name__ == "__main__":
    main(CONFIG)
