# source: https://github.com/fastino-ai/GLiNER2/pull/155
"""Relation extraction head: span marginals and head/tail pair scores that have to agree."""
import argparse

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def marginal_pair_consistency_loss(span_logits: Tensor, pair_logits: Tensor, pairs: Tensor, mask: Tensor) -> Tensor:
    """Squared gap between P(span takes part) and 1 - prod(1 - P(pair)) over the pairs of that span."""
    probabilities = torch.sigmoid(pair_logits) * mask.to(pair_logits.dtype)
    ceiling = 1.0 - torch.finfo(probabilities.dtype).eps
    log_survival = torch.log1p(-probabilities.clamp(max=ceiling))
    batch, n_spans = span_logits.shape
    collected = span_logits.new_zeros(batch, n_spans)
    collected = collected.scatter_add(1, pairs[..., 0], log_survival)
    implied = 1.0 - torch.exp(collected)
    return (torch.sigmoid(span_logits) - implied).square().mean()


class PairScorer(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.head = nn.Linear(dim, dim)
        self.tail = nn.Linear(dim, dim)
        self.scale = dim**-0.5

    def forward(self, spans: Tensor, pairs: Tensor) -> Tensor:
        def pick(x: Tensor, index: Tensor) -> Tensor:
            return x.gather(1, index.unsqueeze(-1).expand(-1, -1, x.size(-1)))

        h = pick(self.head(spans), pairs[..., 0])
        t = pick(self.tail(spans), pairs[..., 1])
        return (h * t).sum(-1) * self.scale


class BoundaryModel(nn.Module):
    def __init__(self, vocab: int = 200, dim: int = 64, consistency_loss_weight: float = 0.1):
        super().__init__()
        self.consistency_loss_weight = consistency_loss_weight
        self.embed = nn.Embedding(vocab, dim)
        self.encoder = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.LayerNorm(dim), nn.Linear(dim, dim))
        self.span_score = nn.Linear(dim, 1)
        self.pair_score = PairScorer(dim)

    def forward(self, tokens: Tensor, pairs: Tensor, mask: Tensor, span_labels: Tensor, pair_labels: Tensor):
        hidden = self.encoder(self.embed(tokens))
        span_logits = self.span_score(hidden).squeeze(-1)
        pair_logits = self.pair_score(hidden, pairs)
        span_loss = F.binary_cross_entropy_with_logits(span_logits, span_labels.to(span_logits.dtype))
        per_pair = F.binary_cross_entropy_with_logits(pair_logits, pair_labels.to(pair_logits.dtype), reduction="none")
        pair_loss = (per_pair * mask).sum() / mask.sum().clamp(min=1)
        loss = span_loss + pair_loss
        if self.consistency_loss_weight > 0:
            loss = loss + self.consistency_loss_weight * marginal_pair_consistency_loss(
                span_logits, pair_logits, pairs, mask
            )
        return loss


def synthetic_batch(n: int, length: int, n_pairs: int, device: torch.device):
    tokens = torch.randint(0, 200, (n, length), device=device)
    pairs = torch.randint(0, length, (n, n_pairs, 2), device=device)
    mask = (torch.rand(n, n_pairs, device=device) < 0.8).float()
    first = tokens.gather(1, pairs[..., 0])
    pair_labels = (first % 2 == 0).float() * mask
    span_labels = (tokens % 2 == 0).float()
    return tokens, pairs, mask, span_labels, pair_labels


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--fp32", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = BoundaryModel().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    for step in range(args.steps):
        batch = synthetic_batch(16, 12, 10, device)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=not args.fp32):
            loss = model(*batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    finite = all(p.isfinite().all() for p in model.parameters())
    print("finite weights:", finite)


if __name__ == "__main__":
    main()
