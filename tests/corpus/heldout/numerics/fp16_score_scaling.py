# target: script
# source: https://github.com/lightonai/pylate/issues/239
# truth: scores are kept in float16, where the guard 1e-8 rounds to exactly 0; a query whose candidates all score the same gives
#   0/0 = NaN after min-max scaling, and with it the whole batch loss and every weight after the step.
import torch
import torch.nn as nn
import torch.nn.functional as F

HALF = torch.float16


class LateInteraction(nn.Module):
    """Token-wise MaxSim scores of one query against its candidate documents."""

    def __init__(self, vocab=200, dim=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)

    def encode(self, ids):
        return F.normalize(self.emb(ids), dim=-1)

    def forward(self, query, docs):
        sim = torch.einsum("bqd,bntd->bnqt", self.encode(query), self.encode(docs))
        return sim.max(-1).values.sum(-1)


class Distillation(nn.Module):
    def __init__(self, model, normalize_scores=True):
        super().__init__()
        self.model = model
        self.normalize_scores = normalize_scores
        self.loss_fn = nn.KLDivLoss(reduction="batchmean", log_target=True)

    @staticmethod
    def min_max(scores):
        lo = scores.min(dim=1, keepdim=True).values
        hi = scores.max(dim=1, keepdim=True).values
        return (scores - lo) / (hi - lo + 1e-8)  # error: DG408|DG410

    def forward(self, query, docs, teacher_scores):
        scores = self.model(query, docs).to(HALF)
        teacher_scores = teacher_scores.to(HALF)
        if self.normalize_scores:
            scores, teacher_scores = self.min_max(scores), self.min_max(teacher_scores)
        return self.loss_fn(F.log_softmax(scores.float(), dim=-1), F.log_softmax(teacher_scores.float(), dim=-1))


class TripletStream:
    """Queries with four candidates; now and then all candidates are copies of the same document."""

    def __init__(self, seed=0, duplicates=0.02):
        self.g = torch.Generator().manual_seed(seed)
        self.duplicates = duplicates

    def batch(self, size=16):
        query = torch.randint(0, 200, (size, 4), generator=self.g)
        docs = torch.randint(0, 200, (size, 4, 8), generator=self.g)
        docs[:, 0, :4] = query
        docs[:, 1, :2] = query[:, :2]
        same = torch.rand(size, generator=self.g) < self.duplicates
        docs[same] = docs[same][:, :1]
        overlap = (docs.unsqueeze(-1) == query[:, None, None, :]).any(-1).float().sum(-1)
        return query, docs, overlap


def main():
    torch.manual_seed(0)
    model = LateInteraction()
    loss_fn = Distillation(model)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    stream = TripletStream()
    total = 0.0
    for step in range(1, 61):
        loss = loss_fn(*stream.batch())
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
        if step % 12 == 0:
            print(f"step {step}: mean loss {total / 12:.5f}")
            total = 0.0


if __name__ == "__main__":
    main()
