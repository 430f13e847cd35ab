# target: Layout.solve
"""Find the layout of ultra wide band anchors from noisy ranges between them."""
import torch


def rooms(anchors, seed):
    g = torch.Generator().manual_seed(seed)
    return torch.rand(anchors, 2, generator=g) * torch.tensor([20.0, 12.0])


def measure(position, seed, noise=0.05, miss=0.3):
    g = torch.Generator().manual_seed(seed)
    n = len(position)
    r = torch.cdist(position, position) + noise * torch.randn(n, n, generator=g)
    r = (r + r.T) / 2
    seen = torch.rand(n, n, generator=g).triu(1) > miss
    seen = seen.triu(1)
    seen = (seen | seen.T).fill_diagonal_(False)
    return r, seen


class Layout:
    def __init__(self, ranges, seen, known, lr=0.2):
        """known: {anchor: (x, y)} that were surveyed."""
        self.ranges, self.seen = ranges, seen
        g = torch.Generator().manual_seed(0)
        start = torch.randn(len(ranges), 2, generator=g) + ranges.mean() / 2
        for anchor, place in known.items():
            start[anchor] = torch.as_tensor(place)
        self.free = torch.ones(len(ranges), 1)
        self.free[list(known)] = 0
        self.position = start.requires_grad_(True)
        self.optimizer = torch.optim.Adam([self.position], lr=lr)

    def pairwise(self):
        offset = self.position[:, None] - self.position[None, :]
        return (offset.pow(2).sum(-1) + 1e-12).sqrt()

    def stress(self):
        residual = (self.pairwise() - self.ranges) * self.seen
        return residual.pow(2).sum() / self.seen.sum()

    def step(self):
        self.optimizer.zero_grad()
        loss = self.stress()
        loss.backward()
        self.position.grad.mul_(self.free)
        self.optimizer.step()
        return loss.item()

    def solve(self, steps=300):
        return [self.step() for _ in range(steps)]


def survey(anchors=12, seed=1):
    truth = rooms(anchors, seed)
    ranges, seen = measure(truth, seed)
    known = {i: truth[i] for i in range(4)}
    layout = Layout(ranges, seen, known)
    history = layout.solve()
    error = (layout.position.detach() - truth).norm(dim=1)
    return history[-1], error.median().item()


if __name__ == "__main__":
    print("stress %.4f, median error %.3f m" % survey())
