# source: https://github.com/ronghuaiyang/arcface-pytorch/issues/91
# target: ArcMarginProduct.forward
# truth: the sine is the root of a value clamped to [0, 1]; an embedding that coincides with its class vector gives
#   cosine 1, the gradient of the root at 0 is infinite and all weights are NaN after the first step
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn import Parameter


@dataclass
class Config:
    feature_dim: int = 32
    num_identities: int = 12
    scale: float = 16.0
    margin: float = 0.5
    easy_margin: bool = False
    lr: float = 0.002
    epochs: int = 4


class ArcMarginProduct(nn.Module):
    """Additive angular margin: cos(theta + m) for the class of the sample."""

    def __init__(self, in_features, out_features, s=30.0, m=0.50, easy_margin=False):
        super().__init__()
        self.s = s
        self.m = m
        self.weight = Parameter(torch.empty(out_features, in_features))
        nn.init.xavier_uniform_(self.weight)
        self.easy_margin = easy_margin
        self.cos_m = math.cos(m)
        self.sin_m = math.sin(m)
        self.th = math.cos(math.pi - m)
        self.mm = math.sin(math.pi - m) * m

    @torch.no_grad()
    def init_from_prototypes(self, features, labels):
        for k in labels.unique():
            self.weight[k] = F.normalize(features[labels == k].mean(dim=0), dim=0)

    def forward(self, features, label):
        cosine = F.linear(F.normalize(features), F.normalize(self.weight))
        sine = torch.sqrt((1.0 - torch.pow(cosine, 2)).clamp(0, 1))  # culprit
        phi = cosine * self.cos_m - sine * self.sin_m
        if self.easy_margin:
            phi = torch.where(cosine > 0, phi, cosine)
        else:
            phi = torch.where(cosine > self.th, phi, cosine - self.mm)
        one_hot = torch.zeros_like(cosine)
        one_hot.scatter_(1, label.view(-1, 1).long(), 1)
        output = (one_hot * phi) + ((1.0 - one_hot) * cosine)
        return output * self.s


class FaceNet(nn.Module):
    def __init__(self, feature_dim):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.PReLU(), nn.AdaptiveAvgPool2d(4))
        self.fc = nn.Linear(128, feature_dim)

    def forward(self, x):
        return self.fc(self.features(x).flatten(1))


class Trainer:
    def __init__(self, cfg: Config):
        self.cfg = cfg
        self.model = FaceNet(cfg.feature_dim)
        self.metric_fc = ArcMarginProduct(cfg.feature_dim, cfg.num_identities, cfg.scale, cfg.margin, cfg.easy_margin)
        params = [{"params": self.model.parameters()}, {"params": self.metric_fc.parameters()}]
        self.optimizer = torch.optim.SGD(params, lr=cfg.lr, momentum=0.9, weight_decay=5e-4)

    def enroll(self, images, labels):
        self.model.eval()
        with torch.no_grad():
            self.metric_fc.init_from_prototypes(self.model(images), labels)

    def fit(self, images, labels):
        self.model.train()
        for epoch in range(self.cfg.epochs):
            logits = self.metric_fc(self.model(images), labels)
            loss = F.cross_entropy(logits, labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            acc = (logits.argmax(dim=1) == labels).float().mean()
            print(f"epoch {epoch} loss {loss.item():.4f} acc {acc.item():.2f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    cfg = Config()
    faces, ids = torch.randn(cfg.num_identities, 1, 16, 16), torch.arange(cfg.num_identities)
    trainer = Trainer(cfg)
    trainer.enroll(faces, ids)
    trainer.fit(faces, ids)
