# source: https://github.com/biomed-AI/Hist2ST/pull/7
# target: SpotGraphNet.forward
# truth: a spot without any neighbour within the radius has an adjacency row of zeros; dividing by its 0 neighbours gives
#   NaN features for it, and the transformer over all spots spreads the NaN to every prediction
"""Gene expression from tissue patches, with message passing between neighbouring spots."""
import torch
import torch.nn.functional as F
from torch import nn


def radius_adjacency(centers, radius, max_neighbours=None):
    """Dense 0/1 adjacency (n, n) of the spots closer than ``radius``; no self loops."""
    dist = torch.cdist(centers, centers)
    dist.fill_diagonal_(float("inf"))
    adj = (dist <= radius).to(centers.dtype)
    if max_neighbours is not None and max_neighbours < centers.size(0):
        nearest = dist.topk(max_neighbours, largest=False).indices
        keep = torch.zeros_like(adj).scatter_(1, nearest, 1.0)
        adj = adj * keep
    return adj


class SpotSAGE(nn.Module):
    def __init__(self, feature_dim, embed_dim, policy="mean", gcn=False):
        super().__init__()
        self.policy = policy
        self.gcn = gcn
        self.linear = nn.Linear(feature_dim if gcn else 2 * feature_dim, embed_dim)

    def aggregate(self, x, adj):
        if self.policy == "mean":
            num_neigh = adj.sum(1, keepdim=True)
            return adj.div(num_neigh) @ x  # culprit
        if self.policy == "max":
            masked = x.unsqueeze(0).expand(adj.size(0), -1, -1) * adj.unsqueeze(-1)
            return masked.amax(1)
        raise ValueError(f"unknown policy {self.policy}")

    def forward(self, x, adj):
        neigh = self.aggregate(x, adj)
        combined = neigh if self.gcn else torch.cat([x, neigh], dim=-1)
        return F.normalize(F.relu(self.linear(combined)), dim=-1)


class PatchMixer(nn.Module):
    def __init__(self, dim, kernel=5):
        super().__init__()
        self.depth = nn.Sequential(nn.Conv2d(dim, dim, kernel, padding="same", groups=dim), nn.GELU(), nn.BatchNorm2d(dim))
        self.point = nn.Sequential(nn.Conv2d(dim, dim, 1), nn.GELU(), nn.BatchNorm2d(dim))

    def forward(self, x):
        return self.point(x + self.depth(x))


class SpotGraphNet(nn.Module):
    def __init__(self, n_genes, channels=16, n_pos=64, sage_layers=2, heads=4, radius=1.5, policy="mean"):
        super().__init__()
        self.radius = radius
        self.stem = nn.Conv2d(3, channels, 4, stride=4)
        self.mixer = PatchMixer(channels)
        self.x_embed = nn.Embedding(n_pos, channels)
        self.y_embed = nn.Embedding(n_pos, channels)
        layer = nn.TransformerEncoderLayer(channels, heads, 2 * channels, dropout=0.1, batch_first=True)
        self.transformer = nn.TransformerEncoder(layer, 1)
        self.sage = nn.ModuleList([SpotSAGE(channels, channels, policy) for _ in range(sage_layers)])
        self.gene_head = nn.Sequential(nn.LayerNorm(channels), nn.Linear(channels, n_genes))

    def forward(self, patches, centers):
        """patches (n, 3, h, w) of one slide, centers (n, 2) integer grid positions."""
        x = self.mixer(self.stem(patches)).mean(dim=(2, 3))
        x = x + self.x_embed(centers[:, 0]) + self.y_embed(centers[:, 1])
        adj = radius_adjacency(centers.to(x.dtype), self.radius)
        for layer in self.sage:
            x = layer(x, adj)
        x = self.transformer(x.unsqueeze(0)).squeeze(0)
        return self.gene_head(x)


def expression_loss(pred, target, zero_weight=0.25):
    weight = torch.where(target > 0, 1.0, zero_weight)
    return (weight * (pred - target).square()).mean()
