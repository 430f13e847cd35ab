# target: script
# source: https://github.com/dmlc/dgl/issues/2657
# truth: none, the repaired twin of set_attention_isolated.py
import math

import torch
from torch import nn


class SetAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads, self.d_head = num_heads, d_model // num_heads
        self.proj_q = nn.Linear(d_model, d_model, bias=False)
        self.proj_k = nn.Linear(d_model, d_model, bias=False)
        self.proj_v = nn.Linear(d_model, d_model, bias=False)
        self.proj_o = nn.Linear(d_model, d_model, bias=False)

    def split(self, x):
        return x.unflatten(-1, (self.num_heads, self.d_head)).transpose(1, 2)

    def forward(self, x, lengths):
        q, k, v = self.split(self.proj_q(x)), self.split(self.proj_k(x)), self.split(self.proj_v(x))
        e = q @ k.transpose(-1, -2) / math.sqrt(self.d_head)
        valid = torch.arange(x.size(1)) < lengths[:, None]
        mask = valid[:, None, :].expand(-1, x.size(1), -1)
        e = e.masked_fill(~mask.unsqueeze(1), float("-inf"))
        out = torch.softmax(e, dim=-1) @ v
        return self.proj_o(out.transpose(1, 2).flatten(2)), valid


class SetRegressor(nn.Module):
    def __init__(self, in_dim=2, d_model=32, num_heads=4):
        super().__init__()
        self.inp = nn.Linear(in_dim, d_model)
        self.att = SetAttention(d_model, num_heads)
        self.ff = nn.Sequential(nn.Linear(d_model, d_model), nn.ReLU(), nn.Linear(d_model, 1))

    def forward(self, x, lengths):
        h = self.inp(x)
        a, valid = self.att(h, lengths)
        members = torch.repeat_interleave(torch.arange(len(x)), lengths)
        rows = self.ff((h + a)[valid]).squeeze(-1)
        return torch.zeros(len(x)).index_add(0, members, rows) / lengths


def pad_sets(sets):
    lengths = torch.tensor([len(s) for s in sets])
    return nn.utils.rnn.pad_sequence(sets, batch_first=True), lengths


def sample_sets(n):
    sets = [torch.randn(int(k), 2) for k in torch.randint(2, 9, (n,))]
    target = torch.stack([torch.pdist(s).mean() for s in sets])
    return sets, target


def main(steps=200):
    torch.manual_seed(14)
    model = SetRegressor()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(steps):
        sets, target = sample_sets(32)
        x, lengths = pad_sets(sets)
        loss = nn.functional.mse_loss(model(x, lengths), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 50 == 0 or step == steps - 1:
            print(f"step {step}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
