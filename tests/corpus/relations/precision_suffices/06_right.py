"""Soft k-means on embeddings with an annealed inverse temperature."""
import torch


def blobs(n=150, k=3, dim=4, seed=0):
    g = torch.Generator().manual_seed(seed)
    centers = torch.randn(k, dim, generator=g) * 3
    label = torch.randint(0, k, (n,), generator=g)
    return centers[label] + 0.5 * torch.randn(n, dim, generator=g), label


def soft_assign(points, centers, beta):
    score = beta * (points @ centers.t() - 0.5 * centers.pow(2).sum(dim=1))
    weight = torch.exp(score - score.amax(dim=1, keepdim=True))
    return weight / weight.sum(dim=1, keepdim=True)


def update(points, assign):
    mass = assign.sum(dim=0).unsqueeze(1)
    return assign.t() @ points / mass.clamp(min=1e-6)


def cluster(points, k, beta=2.0, rounds=15):
    centers = points[torch.linspace(0, len(points) - 1, k).long()]
    for _ in range(rounds):
        assign = soft_assign(points, centers, beta)
        centers = update(points, assign)
    return centers, assign


def purity(assign, label, k):
    hard = assign.argmax(dim=1)
    hits = 0
    for c in range(k):
        members = label[hard == c]
        if len(members):
            hits += torch.bincount(members).max().item()
    return hits / len(label)


def main():
    points, label = blobs()
    centers, assign = cluster(points, 3)
    print("centers", centers.shape, f"purity {purity(assign, label, 3):.3f}")


if __name__ == "__main__":
    main()
