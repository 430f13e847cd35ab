"""Matrix factorisation with Adam, interrupted and resumed from a checkpoint."""
import io

import torch
import torch.nn as nn


class Recommender(nn.Module):
    def __init__(self, users, items, dim=8):
        super().__init__()
        self.user = nn.Embedding(users, dim)
        self.item = nn.Embedding(items, dim)
        nn.init.normal_(self.user.weight, std=0.1)
        nn.init.normal_(self.item.weight, std=0.1)

    def forward(self, u, i):
        return (self.user(u) * self.item(i)).sum(-1)


def save_checkpoint(file, model, optimizer, epoch):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                "epoch": epoch}, file)


def load_checkpoint(file, model, optimizer):
    state = torch.load(file)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["epoch"]


def build(users=40, items=30):
    model = Recommender(users, items)
    return model, torch.optim.Adam(model.parameters(), lr=0.05)


def run(model, optimizer, data, start, end):
    u, i, r = data
    for epoch in range(start, end):
        loss = (model(u, i) - r).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(0)
    u, i = torch.randint(0, 40, (500,)), torch.randint(0, 30, (500,))
    data = (u, i, torch.sin(u.float()) * torch.cos(i.float()))
    model, optimizer = build()
    run(model, optimizer, data, 0, 20)
    file = io.BytesIO()
    save_checkpoint(file, model, optimizer, 20)
    straight = run(model, optimizer, data, 20, 40)

    file.seek(0)
    model, optimizer = build()
    start = load_checkpoint(file, model, optimizer)
    resumed = run(model, optimizer, data, start, 40)
    print(f"straight {straight:.6f} resumed {resumed:.6f}")


if __name__ == "__main__":
    main()
