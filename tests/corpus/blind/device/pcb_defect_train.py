# target: script
# truth: On a GPU machine the first convolution raises "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same": Tensor.to() is not in-place and its result is thrown away, so the batch stays on the CPU.
"""Train the PCB defect detector head (line camera crops + station id)."""
import logging
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
log = logging.getLogger("pcb")


@dataclass
class TrainConfig:
    n_defects: int = 4
    n_stations: int = 10
    crop: int = 48
    batch_size: int = 16
    lr: float = 5e-4
    steps: int = 20
    device: str = "cuda" if torch.cuda.is_available() else "cpu"


class CropDataset(Dataset):
    def __init__(self, cfg: TrainConfig, n: int = 400):
        self.cfg, self.n = cfg, n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        label = i % self.cfg.n_defects
        image = torch.rand(1, self.cfg.crop, self.cfg.crop, generator=g)
        image[:, 8 * label: 8 * label + 8] += 0.5
        return {
            "image": image,
            "station": torch.randint(self.cfg.n_stations, (), generator=g),
            "label": torch.tensor(label),
        }


class DefectNet(nn.Module):
    def __init__(self, cfg: TrainConfig):
        super().__init__()
        self.cnn = nn.Sequential(
            nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(6), nn.Flatten(),
        )
        self.station = nn.Embedding(cfg.n_stations, 8)
        self.head = nn.Linear(32 * 36 + 8, cfg.n_defects)

    def forward(self, image, station):
        return self.head(torch.cat([self.cnn(image), self.station(station)], dim=1))


def train(cfg: TrainConfig) -> nn.Module:
    loader = DataLoader(CropDataset(cfg), batch_size=cfg.batch_size, shuffle=True, drop_last=True)
    model = DefectNet(cfg).to(cfg.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    model.train()
    for step, batch in enumerate(loader):
        if step >= cfg.steps:
            break
        for key in batch:
            batch[key].to(cfg.device, non_blocking=True)  # error: DG201|DG202
        logits = model(batch["image"], batch["station"])
        loss = F.cross_entropy(logits, batch["label"])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            log.info("step %d loss %.4f", step, loss.item())
    return model


if __name__ == "__main__":
    torch.manual_seed(0)
    train(TrainConfig())
