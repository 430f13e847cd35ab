"""An IterableDataset that shares its shards between workers by get_worker_info; nothing is read twice."""
import math

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class ShardedStream(IterableDataset):
    def __init__(self, n_items: int, shard_size: int = 16):
        super().__init__()
        self.n_items = n_items
        self.shards = [range(i, min(i + shard_size, n_items)) for i in range(0, n_items, shard_size)]

    def __iter__(self):
        info = get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        for shard in self.shards[worker::workers]:
            for i in shard:
                x = torch.tensor([math.sin(i), math.cos(i)])
                yield {"id": i, "x": x, "y": x.sum(dim=0, keepdim=True)}


def train(loader, device):
    model = torch.nn.Linear(2, 1).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.2)
    for epoch in range(2):
        total, n = torch.zeros((), device=device), 0
        for batch in loader:
            x, y = batch["x"].to(device), batch["y"].to(device)
            loss = torch.nn.functional.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.detach() * len(x)
            n += len(x)
        print(f"epoch {epoch}: loss {(total / n).item():.4f} over {n} items")


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(ShardedStream(200), batch_size=20, num_workers=2)
    seen = torch.cat([batch["id"] for batch in loader])
    assert seen.unique().numel() == seen.numel() == 200
    train(loader, device)


if __name__ == "__main__":
    main()
