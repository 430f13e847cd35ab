"""A training loop with accelerate: prepare, accumulate, clip when gradients are synced, gather for metrics."""
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 10, generator=g)
    return TensorDataset(x, (x[:, :5].sum(1) > x[:, 5:].sum(1)).long())


def evaluate(accelerator, model, loader):
    model.eval()
    hits, count = [], 0
    with torch.no_grad():
        for x, y in loader:
            pred = model(x).argmax(dim=1)
            pred, y = accelerator.gather_for_metrics((pred, y))
            hits.append((pred == y).sum())
            count += y.numel()
    model.train()
    return torch.stack(hits).sum().item() / count


def main():
    set_seed(0)
    accelerator = Accelerator(gradient_accumulation_steps=2)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10, gamma=0.7)
    train_loader = DataLoader(make(320, 0), batch_size=16, shuffle=True)
    eval_loader = DataLoader(make(100, 1), batch_size=32)
    model, optimizer, train_loader, eval_loader, scheduler = accelerator.prepare(
        model, optimizer, train_loader, eval_loader, scheduler
    )
    criterion = nn.CrossEntropyLoss()
    model.train()
    for epoch in range(4):
        total = torch.zeros((), device=accelerator.device)
        for x, y in train_loader:
            with accelerator.accumulate(model):
                loss = criterion(model(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            total += loss.detach()
        accuracy = evaluate(accelerator, model, eval_loader)
        accelerator.print(f"epoch {epoch}: loss {total.item() / len(train_loader):.3f}, accuracy {accuracy:.3f}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
