# source: https://github.com/pgniewko/gt-pyg/issues/112
# target: fine_tune
# truth: freeze() puts the frozen BatchNorm layers in eval mode once, and model.train() at each epoch puts them back in
#   train mode: the frozen encoder normalises with batch statistics and its running stats drift
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class GTConv(nn.Module):
    """Dense graph transformer layer with batch norm on the node features."""

    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.edge_bias = nn.Parameter(torch.zeros(heads))
        self.out = nn.Linear(dim, dim)
        self.norm1 = nn.BatchNorm1d(dim)
        self.norm2 = nn.BatchNorm1d(dim)
        self.ffn = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    @staticmethod
    def _norm(norm, x):
        return norm(x.flatten(0, 1)).view_as(x)

    def forward(self, x, adj):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        score = q @ k.transpose(-1, -2) * (d // self.heads) ** -0.5
        score = score + self.edge_bias.view(1, -1, 1, 1) * adj.unsqueeze(1)
        h = (score.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d)
        x = self._norm(self.norm1, x + self.out(h))
        return self._norm(self.norm2, x + self.ffn(x))


class GraphTransformerNet(nn.Module):
    def __init__(self, node_dim, hidden=32, layers=2):
        super().__init__()
        self.embed = nn.Linear(node_dim, hidden)
        self.encoder = nn.ModuleList([GTConv(hidden) for _ in range(layers)])
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self._frozen = []

    def freeze(self, *names):
        for name in names:
            module = getattr(self, name)
            module.requires_grad_(False)
            self._frozen.append(module)
        self.set_frozen_eval()

    def set_frozen_eval(self):
        for module in self._frozen:
            for m in module.modules():
                if isinstance(m, nn.BatchNorm1d):
                    m.eval()

    def forward(self, x, adj):
        h = self.embed(x)
        for conv in self.encoder:
            h = conv(h, adj)
        return self.head(h.mean(1)).squeeze(-1)


def make_batch(batch, nodes, dim, shift, device):
    x = torch.randn(batch, nodes, dim, device=device) + shift
    adj = (torch.rand(batch, nodes, nodes, device=device) < 0.3).float()
    adj = ((adj + adj.transpose(1, 2)) > 0).float()
    return x, adj, x.mean((1, 2)) + adj.mean((1, 2))


def fine_tune(model, args, device, shift):
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(params, lr=args.lr)
    for epoch in range(args.epochs):
        model.train()  # culprit
        total = 0.0
        for _ in range(args.iters):
            x, adj, y = make_batch(16, 12, args.node_dim, shift, device)
            loss = F.mse_loss(model(x, adj), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        model.eval()
        with torch.no_grad():
            x, adj, y = make_batch(64, 12, args.node_dim, shift, device)
            val = F.mse_loss(model(x, adj), y).item()
        print(f"epoch {epoch} train {total / args.iters:.4f} val {val:.4f}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--node-dim", type=int, default=8)
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--iters", type=int, default=10)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = GraphTransformerNet(args.node_dim).to(device)
    print("pre-training")
    fine_tune(model, args, device, shift=0.0)
    model.freeze("embed", "encoder")
    before = model.encoder[0].norm1.running_mean.clone()
    print("fine-tuning the head")
    fine_tune(model, args, device, shift=1.5)
    drift = (model.encoder[0].norm1.running_mean - before).abs().max().item()
    print(f"max change of the encoder statistics {drift:.4f}")


if __name__ == "__main__":
    main()
