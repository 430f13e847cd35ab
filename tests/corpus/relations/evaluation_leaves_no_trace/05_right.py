import torch
import torch.nn as nn


def top_k_filter(logits, k):
    """Keep the k largest logits of every row, set the rest to -inf."""
    kth = logits.topk(k, dim=-1).values[..., -1, None]
    return logits.masked_fill(logits < kth, float("-inf"))


class CharLM(nn.Module):
    def __init__(self, vocab=40, dim=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, vocab)

    def forward(self, ids):
        h, _ = self.rnn(self.embed(ids))
        return self.out(h)


def beam_candidates(logits, k):
    """Log probabilities (B, V) and ids (B, k) of the candidates kept for each hypothesis."""
    kept = top_k_filter(logits, k)
    ids = kept.topk(k, dim=-1).indices
    return kept.log_softmax(-1), ids


def main():
    torch.manual_seed(0)
    model = CharLM().eval()
    ids = torch.randint(0, 40, (3, 6))
    with torch.no_grad():
        for _ in range(8):
            logits = model(ids)[:, -1]
            logp, cand = beam_candidates(logits, k=5)
            entropy = -(logits.softmax(-1) * logits.softmax(-1).clamp(min=1e-9).log()).sum(-1)
            best = cand.gather(1, logp.gather(1, cand).argmax(1, keepdim=True))
            ids = torch.cat([ids, best], dim=1)
    print(ids, entropy)


if __name__ == "__main__":
    main()
