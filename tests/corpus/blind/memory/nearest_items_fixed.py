# target: script
# gpu-memory: 8GiB
"""Offline evaluation of the two-tower recommender: recall@k by nearest neighbour."""
import argparse
import time

import torch
import torch.nn as nn


class Tower(nn.Module):
    def __init__(self, n_ids: int, n_features: int, dim: int):
        super().__init__()
        self.ids = nn.Embedding(n_ids, dim)
        self.features = nn.Linear(n_features, dim)
        self.out = nn.Sequential(nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, ids: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        return self.out(self.ids(ids) + self.features(features))


def pairwise_distances(users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
    """(U, D), (I, D) -> (U, I) Euclidean distances."""
    return torch.cdist(users, items)


@torch.no_grad()
def recall_at_k(user_emb, item_emb, bought, k: int, batch_size: int) -> float:
    """`bought[u]` is the held-out item of user u."""
    hits = 0
    for start in range(0, len(user_emb), batch_size):
        dist = pairwise_distances(user_emb[start:start + batch_size], item_emb)
        nearest = dist.topk(k, dim=1, largest=False).indices
        hits += (nearest == bought[start:start + batch_size, None]).any(dim=1).sum().item()
    return hits / len(user_emb)


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--users", type=int, default=2048)
    parser.add_argument("--items", type=int, default=30000)
    parser.add_argument("--features", type=int, default=16)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("-k", type=int, default=50)
    return parser.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    user_tower = Tower(args.users, args.features, args.dim).to(device).eval()
    item_tower = Tower(args.items, args.features, args.dim).to(device).eval()
    user_features = torch.randn(args.users, args.features, device=device)
    item_features = torch.randn(args.items, args.features, device=device)
    bought = torch.randint(0, args.items, (args.users,), device=device)

    started = time.perf_counter()
    with torch.no_grad():
        user_emb = user_tower(torch.arange(args.users, device=device), user_features)
        item_emb = item_tower(torch.arange(args.items, device=device), item_features)
    recall = recall_at_k(user_emb, item_emb, bought, args.k, args.batch_size)
    print(f"recall@{args.k} {recall:.4f} ({time.perf_counter() - started:.1f}s)")


if __name__ == "__main__":
    main()
