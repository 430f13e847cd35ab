# target: script
# source: https://github.com/gitabcworld/MatchingNetworks/issues/5
# truth: none, the repaired twin of matching_net.py
import torch
import torch.nn as nn
import torch.nn.functional as F

N_WAY, K_SHOT, N_QUERY = 5, 3, 4


class EpisodeSampler:
    def __init__(self, n_classes=40, dim=16, spread=0.35, seed=0):
        self.rng = torch.Generator().manual_seed(seed)
        self.prototypes = torch.randn(n_classes, dim, generator=self.rng)
        self.mix = torch.randn(dim, dim, generator=self.rng)
        self.spread = spread

    def episode(self):
        classes = torch.randperm(len(self.prototypes), generator=self.rng)[:N_WAY]
        def draw(k):
            x = self.prototypes[classes].repeat_interleave(k, 0)
            x = x + self.spread * torch.randn(x.shape, generator=self.rng)
            return torch.tanh(x @ self.mix), torch.arange(N_WAY).repeat_interleave(k)
        return (*draw(K_SHOT), *draw(N_QUERY))


class DistanceNetwork(nn.Module):
    def forward(self, support, query):
        return F.normalize(query, dim=-1) @ F.normalize(support, dim=-1).t()


class AttentionalClassify(nn.Module):
    """similarities (Q, S), one-hot support labels (S, C) -> class probabilities (Q, C)"""

    def forward(self, similarities, support_onehot, temperature=0.1):
        return torch.softmax(similarities / temperature, dim=1) @ support_onehot


class MatchingNetwork(nn.Module):
    def __init__(self, dim=16, width=64):
        super().__init__()
        self.g = nn.Sequential(nn.Linear(dim, width), nn.ReLU(), nn.Linear(width, width))
        self.dist = DistanceNetwork()
        self.classify = AttentionalClassify()

    def forward(self, sx, sy, qx, qy):
        onehot = F.one_hot(sy, N_WAY).float()
        sims = self.dist(self.g(sx), self.g(qx))
        preds = self.classify(sims, onehot)
        accuracy = (preds.argmax(1) == qy).float().mean()
        crossentropy_loss = F.nll_loss(torch.log(preds.clamp_min(1e-12)), qy)
        return accuracy, crossentropy_loss


class OneShotBuilder:
    def __init__(self, data, lr=1e-3):
        torch.manual_seed(4)
        self.data = data
        self.net = MatchingNetwork()
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=lr)

    def run_training_epoch(self, total_batches):
        total_loss = total_acc = 0.0
        for _ in range(total_batches):
            acc, loss = self.net(*self.data.episode())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total_loss += loss.item()
            total_acc += acc.item()
        return total_loss / total_batches, total_acc / total_batches


if __name__ == "__main__":
    builder = OneShotBuilder(EpisodeSampler())
    for epoch in range(6):
        loss, acc = builder.run_training_epoch(150)
        print(f"epoch {epoch}: loss {loss:.4f} acc {acc:.4f}")
