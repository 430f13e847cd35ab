"""Memory that grows on purpose: histories of numbers, a replay buffer, a feature bank, optimizer state, checkpoints."""
import copy
from collections import deque
import torch
from torch import nn
import torch.nn.functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"


def history():
    net = nn.Linear(8, 2).to(device)
    opt = torch.optim.Adam(net.parameters())
    losses, snapshots, recent = [], [], deque(maxlen=3)
    for step in range(6):
        loss = F.cross_entropy(net(torch.randn(4, 8, device=device)), torch.randint(2, (4,), device=device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
        recent.append(loss.detach())
        snapshots.append(copy.deepcopy(net.state_dict()))
    return losses, snapshots, list(recent)


def feature_bank():
    net = nn.Linear(8, 512).to(device)
    opt = torch.optim.SGD(net.parameters(), 0.1)
    bank = []
    for step in range(6):
        h = net(torch.randn(256, 8, device=device))
        loss = h.square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        bank.append(h.detach().cpu())
    return torch.cat(bank)


def replay():
    net = nn.Linear(8, 2).to(device)
    opt = torch.optim.SGD(net.parameters(), 0.1)
    memory = []
    for step in range(6):
        memory.append((torch.randn(8), step % 2))
        x = torch.stack([s for s, _ in memory[-4:]]).to(device)
        y = torch.tensor([a for _, a in memory[-4:]], device=device)
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()


def curriculum():
    """Sequences get longer."""
    net = nn.GRU(8, 64, batch_first=True).to(device)
    opt = torch.optim.Adam(net.parameters())
    for length in range(10, 60, 10):
        x = torch.randn(64, length, 8, device=device)
        out, _ = net(x)
        loss = out.square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def unrolled():
    """A graph over all steps by intention: one backward at the end."""
    cell = nn.GRUCell(4, 8).to(device)
    opt = torch.optim.Adam(cell.parameters())
    for epoch in range(3):
        h, loss = torch.zeros(2, 8, device=device), 0.0
        for t in range(6):
            h = cell(torch.randn(2, 4, device=device), h)
            loss = loss + h.square().mean()
        opt.zero_grad()
        (loss / 6).backward()
        opt.step()


def progressive():
    layers = nn.ModuleList([nn.Linear(8, 8)]).to(device)
    for stage in range(4):
        opt = torch.optim.SGD(layers.parameters(), 0.1)
        for _ in range(3):
            x = torch.randn(4, 8, device=device)
            for layer in layers:
                x = layer(x).relu()
            opt.zero_grad()
            x.mean().backward()
            opt.step()
        layers.append(nn.Linear(8, 8).to(device))


def k_fold():
    scores = []
    for fold in range(3):
        net = nn.Linear(8, 2).to(device)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        for _ in range(3):
            opt.zero_grad()
            loss = net(torch.randn(4, 8, device=device)).square().mean()
            loss.backward()
            opt.step()
        scores.append(float(loss))
    return sum(scores) / len(scores)


if __name__ == "__main__":
    history(); feature_bank(); replay(); curriculum(); unrolled(); progressive(); k_fold()
