"""A command line trainer: every argument has a default, the device is chosen from it."""
import argparse
import json
import os
import tempfile

import torch
import torch.nn as nn
import torch.optim as optim


def parse_args(argv=None):
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--lr", type=float, default=0.05)
    p.add_argument("--optimizer", choices=["sgd", "adam"], default="sgd")
    p.add_argument("--no-cuda", action="store_true", help="stay on the CPU")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--out", default=None, help="where results go; a temporary folder if left out")
    return p.parse_args(argv)


def get_optimizer(args, params):
    if args.optimizer == "adam":
        return optim.Adam(params, lr=args.lr)
    return optim.SGD(params, lr=args.lr, momentum=0.9, nesterov=True)


def get_loaders(args):
    g = torch.Generator().manual_seed(args.seed)
    x = torch.randn(400, 2, generator=g)
    y = (x.norm(dim=1) < 1.1).float()
    make = lambda a, b, shuffle: torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(x[a:b], y[a:b]), batch_size=args.batch_size, shuffle=shuffle
    )
    return make(0, 300, True), make(300, 400, False)


def train(model, device, loader, optimizer):
    model.train()
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        output = model(x).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(output, y)
        loss.backward()
        optimizer.step()


def test(model, device, loader):
    model.eval()
    loss = torch.zeros((), device=device)
    correct = torch.zeros((), device=device)
    with torch.no_grad():
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            output = model(x).squeeze(1)
            loss += nn.functional.binary_cross_entropy_with_logits(output, y, reduction="sum")
            correct += ((output > 0) == y.bool()).sum()
    n = len(loader.dataset)
    return loss.item() / n, correct.item() / n


def main(argv=None):
    args = parse_args(argv)
    torch.manual_seed(args.seed)
    use_cuda = not args.no_cuda and torch.cuda.is_available()
    device = torch.device("cuda" if use_cuda else "cpu")
    train_loader, test_loader = get_loaders(args)
    model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1)).to(device)
    optimizer = get_optimizer(args, model.parameters())
    results = []
    for epoch in range(1, args.epochs + 1):
        train(model, device, train_loader, optimizer)
        loss, acc = test(model, device, test_loader)
        results.append({"epoch": epoch, "loss": loss, "accuracy": acc})
        print(f"epoch {epoch}: test loss {loss:.3f}, accuracy {acc:.3f}")
    out = args.out or tempfile.mkdtemp(prefix="argparse_trainer_")
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "results.json"), "w") as f:
        json.dump(results, f)


if __name__ == "__main__":
    main()
