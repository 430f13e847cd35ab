"""Mixed precision with accumulation: the last group is smaller, and is divided by its own size."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = "cuda" if torch.cuda.is_available() else "cpu"
dtype = torch.float16 if device == "cuda" else torch.bfloat16
GROUP = 4


def build():
    return nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 5)).to(device)


def fit(model, loader, epochs=2):
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.05}, {"params": rest, "weight_decay": 0.0}], lr=3e-4)
    steps = epochs * -(-len(loader) // GROUP)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-3, total_steps=steps)
    scaler = torch.amp.GradScaler(device, enabled=device == "cuda")
    history = []
    for _ in range(epochs):
        model.train()
        running, seen = torch.zeros((), device=device), 0
        optimizer.zero_grad(set_to_none=True)
        for i, (x, y) in enumerate(loader):
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            first = i - i % GROUP
            size = min(GROUP, len(loader) - first)
            with torch.autocast(device, dtype=dtype):
                loss = nn.functional.cross_entropy(model(x), y, label_smoothing=0.1)
            scaler.scale(loss / size).backward()
            running += loss.detach() * len(y)
            seen += len(y)
            if (i + 1) % GROUP == 0 or i + 1 == len(loader):
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scale = scaler.get_scale()
                scaler.step(optimizer)
                scaler.update()
                if scaler.get_scale() >= scale:
                    scheduler.step()
                optimizer.zero_grad(set_to_none=True)
        history.append((running / seen).item())
    return history


if __name__ == "__main__":
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(70, 12), torch.randint(0, 5, (70,)))
    print(fit(build(), DataLoader(data, batch_size=8, shuffle=True)))
