"""Link prediction with minibatches of edges and resampled negatives that are no edges."""
import torch
from torch import nn
import torch.nn.functional as F

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
N, DIM = 48, 16


def community_edges(generator):
    group = torch.arange(N) // 12
    p = torch.where(group[:, None] == group[None, :], 0.5, 0.03)
    a, b = (torch.rand(N, N, generator=generator) < p).triu(1).nonzero(as_tuple=True)
    return torch.stack([a, b], dim=1)


def negative_edges(count, dense):
    """Uniform pairs a < b without those that exist; drawn again until there are enough."""
    found, have = [], 0
    while have < count:
        pair = torch.randint(N, (2 * count, 2), device=dense.device)
        pair = torch.stack([pair.amin(1), pair.amax(1)], dim=1)
        ok = (pair[:, 0] != pair[:, 1]) & ~dense[pair[:, 0], pair[:, 1]]
        found.append(pair[ok])
        have += found[-1].size(0)
    return torch.cat(found)[:count]


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(N, DIM)
        self.mix = nn.Linear(DIM, DIM)

    def forward(self, adj):
        h = self.embed.weight
        return h + torch.tanh(self.mix(adj @ h))

    @staticmethod
    def score(z, pairs):
        return (z[pairs[:, 0]] * z[pairs[:, 1]]).sum(dim=1)


def auc(pos, neg):
    """Chance that a true edge scores higher than a false one."""
    diff = pos.unsqueeze(1) - neg.unsqueeze(0)
    return ((diff > 0).float() + 0.5 * (diff == 0).float()).mean()


def main():
    torch.manual_seed(0)
    edges = community_edges(torch.Generator().manual_seed(1)).to(device)
    edges = edges[torch.randperm(len(edges), device=device)]
    cut = len(edges) * 4 // 5
    train, test = edges[:cut], edges[cut:]
    train_dense = torch.zeros(N, N, dtype=torch.bool, device=device)
    train_dense[train[:, 0], train[:, 1]] = True
    all_dense = train_dense.clone()  # evaluation alone may know the held-out edges
    all_dense[test[:, 0], test[:, 1]] = True
    known = torch.zeros(N, N, device=device)
    known[train[:, 0], train[:, 1]] = 1.0  # the encoder sees training edges only
    known = known + known.T
    known = known / known.sum(dim=1, keepdim=True).clamp(min=1)

    model = Encoder().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-3)
    for epoch in range(12):
        for batch in train[torch.randperm(cut, device=device)].split(64):
            z = model(known)
            pairs = torch.cat([batch, negative_edges(len(batch), train_dense)])
            target = torch.zeros(len(pairs), device=device)
            target[: len(batch)] = 1.0
            loss = F.binary_cross_entropy_with_logits(model.score(z, pairs), target)
            opt.zero_grad()
            loss.backward()
            opt.step()
    model.eval()
    with torch.no_grad():
        z = model(known)
        value = auc(model.score(z, test), model.score(z, negative_edges(len(test), all_dense)))
    print(f"test AUC {value.item():.3f}")


if __name__ == "__main__":
    main()
