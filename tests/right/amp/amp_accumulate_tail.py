"""Mixed precision with accumulation: the scaler updates once per effective batch, the last one included."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def loaders():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(150, 10, generator=g)
    y = x[:, :5].sum(1, keepdim=True).tanh()
    pin = torch.cuda.is_available()
    return DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True, pin_memory=pin)


def group_sizes(n_batches, accum):
    """How many batches stand in the group of each batch index."""
    full = n_batches // accum * accum
    return [accum if i < full else n_batches - full for i in range(n_batches)]


def train(model, loader, optimizer, scaler, device, accum):
    sizes = group_sizes(len(loader), accum)
    optimizer.zero_grad()
    total, count = torch.zeros((), device=device), 0
    for i, (x, y) in enumerate(loader):
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        with torch.autocast(device.type, dtype=torch.float16, enabled=device.type == "cuda"):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss / sizes[i]).backward()
        total += loss.detach() * x.size(0)
        count += x.size(0)
        if (i + 1) % accum == 0 or (i + 1) == len(loader):
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_value_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    return total.item() / count


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Linear(10, 32), nn.GELU(), nn.Linear(32, 1)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cuda", enabled=device.type == "cuda")
    loader = loaders()
    for epoch in range(8):
        loss = train(model, loader, optimizer, scaler, device, accum=4)
        if epoch % 2 == 1:
            print(f"epoch {epoch + 1}: {loss:.4f}")


if __name__ == "__main__":
    main()
