"""DDP with an ordinary loader: every GPU sees the same samples (oslo #59, SimSiam #16, openvla #125)."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Squares(Dataset):
    def __init__(self, n=96):
        self.x = torch.linspace(-1, 1, n).unsqueeze(1)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.x[i] ** 2


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(42)
    dataset = Squares()
    loader = DataLoader(dataset, batch_size=16, shuffle=True)
    model = DDP(nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(2):
        for x, y in loader:
            loss = F.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
