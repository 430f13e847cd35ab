"""A script that takes everything from a toolkit with relative and star imports."""
import torch

from toolkit import *

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def patterns(n):
    y = torch.randint(3, (n,), device=device)
    x = 0.5 * torch.randn(n, 1, 10, 10, device=device)
    x[y == 0, :, :5] += 1
    x[y == 1, :, 5:] += 1
    x[y == 2] -= 1
    return x, y


def train(net, criterion, optimizer, steps=40):
    losses = AverageMeter()
    net.train()
    for step in range(1, steps + 1):
        x, y = patterns(24)
        loss = criterion(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.update(loss, x.size(0))
        if step % 20 == 0:
            print(f"step {step}: average loss {losses.avg:.3f}")
            losses.reset()


def validate(net):
    net.eval()
    with torch.no_grad():
        x, y = patterns(120)
        top1, top2 = accuracy(net(x), y, topk=(1, 2))
    print(f"top-1 {top1.item():.3f}, top-2 {top2.item():.3f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    net = SmallNet(3).to(device)
    train(net, PolyLoss(), torch.optim.Adam(net.parameters(), lr=5e-3))
    validate(net)
