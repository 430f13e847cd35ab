"""Gradient accumulation whose last, shorter group still makes a step of the right size."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ACCUM = 4


def make_loader(seed: int = 0) -> DataLoader:
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(230, 6, generator=g)
    y = (x[:, 0] * x[:, 1] > 0).long()
    return DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True, generator=g)


def train_one_epoch(model, loader, optimizer, device, max_norm=1.0):
    model.train()
    criterion = nn.CrossEntropyLoss(reduction="sum")
    n_batches = len(loader)
    n_samples = len(loader.dataset)
    seen_in_group = 0
    epoch_loss = torch.zeros((), device=device)
    optimizer.zero_grad(set_to_none=True)
    for i, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        loss = criterion(model(x), y)
        loss.backward()
        epoch_loss += loss.detach()
        seen_in_group += y.numel()
        if (i + 1) % ACCUM == 0 or i + 1 == n_batches:
            # Sums were accumulated; one division turns them into the mean of this very group.
            for p in model.parameters():
                if p.grad is not None:
                    p.grad.div_(seen_in_group)
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            seen_in_group = 0
    return (epoch_loss / n_samples).item()


def main():
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Linear(6, 32), nn.GELU(), nn.Linear(32, 2)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    loader = make_loader()
    for epoch in range(10):
        mean_loss = train_one_epoch(model, loader, optimizer, device)
        if epoch % 3 == 0:
            print(f"epoch {epoch}: {mean_loss:.4f}")


if __name__ == "__main__":
    main()
