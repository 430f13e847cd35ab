"""DETR-like set prediction: exact bipartite matching of few objects under no_grad, then losses on matched pairs."""
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F

QUERIES, CLASSES, OBJECTS = 4, 2, 2
NO_OBJECT = CLASSES


class SetPredictor(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.memory = nn.Linear(4, dim)
        self.queries = nn.Parameter(0.1 * torch.randn(QUERIES, dim))
        self.decoder = nn.TransformerDecoderLayer(dim, 4, 64, dropout=0.0, batch_first=True)
        self.cls, self.point = nn.Linear(dim, CLASSES + 1), nn.Linear(dim, 2)

    def forward(self, tokens):
        q = self.queries.expand(tokens.size(0), -1, -1)
        h = self.decoder(q, self.memory(tokens))
        return {"logits": self.cls(h), "points": self.point(h).sigmoid()}


class Matcher:
    """Tries all assignments, which is exact and cheap for two objects and four queries."""

    def __init__(self, device):
        self.orders = torch.tensor(list(itertools.permutations(range(QUERIES), OBJECTS)), device=device)

    @torch.no_grad()
    def __call__(self, out, labels, points):
        prob = out["logits"].softmax(-1)
        index = labels.unsqueeze(1).expand(-1, QUERIES, -1)
        cost = torch.cdist(out["points"], points, p=1) - prob.gather(2, index)
        each = cost[:, self.orders, torch.arange(OBJECTS, device=cost.device)]
        return self.orders[each.sum(-1).argmin(dim=1)]


def set_loss(out, labels, points, matcher, eos=0.2):
    chosen = matcher(out, labels, points)
    rows = torch.arange(labels.size(0), device=labels.device).unsqueeze(1)
    target = torch.full(out["logits"].shape[:2], NO_OBJECT, device=labels.device)
    target[rows, chosen] = labels
    weight = torch.ones(CLASSES + 1, device=labels.device)
    weight[NO_OBJECT] = eos
    cls = F.cross_entropy(out["logits"].flatten(0, 1), target.flatten(), weight=weight)
    return {"cls": cls, "point": F.l1_loss(out["points"][rows, chosen], points)}


def scene(n, device):
    labels = torch.randint(CLASSES, (n, OBJECTS), device=device)
    points = torch.rand(n, OBJECTS, 2, device=device)
    return torch.cat([points, F.one_hot(labels, CLASSES).float()], dim=-1), labels, points


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model, matcher = SetPredictor().to(device), Matcher(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    weights = {"cls": 1.0, "point": 5.0}
    for step in range(100):
        tokens, labels, points = scene(32, device)
        losses = set_loss(model(tokens), labels, points, matcher)
        total = sum(weights[k] * v for k, v in losses.items())
        opt.zero_grad()
        total.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 25 == 0:
            print(step, {k: round(v.item(), 3) for k, v in losses.items()})


if __name__ == "__main__":
    main()
