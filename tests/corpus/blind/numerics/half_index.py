# target: script
# truth: Rows are normalised after the cast to float16, where eps=1e-8 rounds to zero, so items without attributes (zero
#   vectors) become 0/0 = NaN; topk ranks NaN highest, so these items are returned for every query.
"""Builds a half-precision cosine index of shop items and measures its recall."""
import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"


class ItemTower(nn.Module):
    """Bias-free tower on multi-hot attributes: no attributes, no direction."""

    def __init__(self, n_attributes, dim):
        super().__init__()
        self.first = nn.Linear(n_attributes, 4 * dim, bias=False)
        self.second = nn.Linear(4 * dim, dim, bias=False)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


def unit_rows(vectors, eps=1e-8):
    return vectors / (vectors.norm(dim=-1, keepdim=True) + eps)


@torch.no_grad()
def build_index(tower, attributes, device, chunk=1024):
    """Unit vectors of all items, stored as float16: (n_items, dim)."""
    tower.eval()
    parts = []
    for block in attributes.split(chunk):
        vectors = tower(block.to(device))
        parts.append(unit_rows(vectors.half()))  # error: DG402|DG408|DG410
    return torch.cat(parts)


@torch.no_grad()
def search(index, queries, k):
    """Positions of the k most similar items, (n_queries, k)."""
    scores = queries @ index.T
    return scores.topk(k, dim=1).indices


def make_catalogue(n_items, n_attributes, seed=0):
    g = torch.Generator().manual_seed(seed)
    attributes = (torch.rand(n_items, n_attributes, generator=g) < 0.15).float()
    # a few listings arrive without any attribute filled in
    attributes[torch.randint(0, n_items, (5,), generator=g)] = 0.0
    return attributes


def main():
    torch.manual_seed(0)
    items = make_catalogue(2000, 60)
    tower = ItemTower(60, 32).to(device)
    index = build_index(tower, items, device)
    # queries are items with one attribute dropped at random
    wanted = items.sum(dim=1).gt(4).nonzero().squeeze(1)[:200]
    keep = torch.ones(len(wanted), 60)
    keep[torch.arange(len(wanted)), torch.multinomial(items[wanted], 1).squeeze(1)] = 0.0
    queries = build_index(tower, items[wanted] * keep, device)
    found = search(index, queries, k=3).cpu()
    recall = (found == wanted.unsqueeze(1)).any(dim=1).float().mean()
    print(f"items {len(index)}, recall@3 {recall.item():.3f}")


if __name__ == "__main__":
    main()
