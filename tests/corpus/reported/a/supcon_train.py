# source: https://github.com/HobbitLong/SupContrast/issues/141
# target: SupConLoss.forward
# truth: an anchor whose class appears once in the batch has no positive pair: mask.sum(1) is 0, 0/0 gives NaN and the
#   mean makes the whole loss NaN, after which all weights are NaN
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class SupConLoss(nn.Module):
    """Supervised contrastive loss; features are (batch, views, dim)."""

    def __init__(self, temperature=0.07, contrast_mode="all", base_temperature=0.07):
        super().__init__()
        self.temperature = temperature
        self.contrast_mode = contrast_mode
        self.base_temperature = base_temperature

    def forward(self, features, labels):
        device = features.device
        if features.dim() < 3:
            raise ValueError("`features` needs to be [bsz, n_views, ...]")
        batch_size, n_views = features.shape[:2]
        labels = labels.contiguous().view(-1, 1)
        if labels.shape[0] != batch_size:
            raise ValueError("Num of labels does not match num of features")
        same = torch.eq(labels, labels.T).float().to(device)

        contrast_feature = torch.cat(torch.unbind(features, dim=1), dim=0)
        if self.contrast_mode == "one":
            anchor_feature, anchor_count = features[:, 0], 1
        else:
            anchor_feature, anchor_count = contrast_feature, n_views

        logits = anchor_feature @ contrast_feature.T / self.temperature
        logits = logits - logits.max(dim=1, keepdim=True).values.detach()

        mask = same.repeat(anchor_count, n_views)
        own = torch.arange(batch_size * anchor_count, device=device).view(-1, 1)
        logits_mask = torch.ones_like(mask).scatter_(1, own, 0)
        mask = mask * logits_mask

        exp_logits = torch.exp(logits) * logits_mask
        log_prob = logits - torch.log(exp_logits.sum(1, keepdim=True))

        pos_pairs = mask.sum(1)
        mean_log_prob_pos = (mask * log_prob).sum(1) / pos_pairs  # culprit
        loss = -(self.temperature / self.base_temperature) * mean_log_prob_pos
        return loss.mean()


class Projector(nn.Module):
    def __init__(self, in_dim, feat_dim=16):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(in_dim, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.head = nn.Linear(64, feat_dim)

    def forward(self, x):
        return F.normalize(self.head(self.encoder(x)), dim=1)


def make_data(n, n_classes, dim):
    centers = torch.randn(n_classes, dim) * 2
    y = torch.randint(0, n_classes, (n,))
    return TensorDataset(centers[y] + torch.randn(n, dim), y)


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--classes", type=int, default=20)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--temp", type=float, default=0.1)
    return p.parse_args()


def main():
    args = parse()
    torch.manual_seed(0)
    loader = DataLoader(make_data(512, args.classes, 24), batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = Projector(24)
    criterion = SupConLoss(temperature=args.temp)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(1, args.epochs + 1):
        total = 0.0
        for x, y in loader:
            feats = model(x).unsqueeze(1)
            loss = criterion(feats, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(loader):.4f}")


if __name__ == "__main__":
    main()
