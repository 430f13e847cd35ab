"""Beam search over a table of transition log-probabilities, checked against exhaustive search."""
import itertools
from dataclasses import dataclass, field
from typing import List

import torch
import torch.nn.functional as F

BOS, EOS = 0, 1


@dataclass(order=True)
class Hypothesis:
    score: float
    tokens: List[int] = field(compare=False)


class BigramModel(torch.nn.Module):
    def __init__(self, vocab, generator):
        super().__init__()
        self.register_buffer("logits", torch.randn(vocab, vocab, generator=generator))

    def forward(self, last):
        table = self.logits.clone()
        table[:, BOS] = float("-inf")  # BOS is never produced; other entries stay finite
        return F.log_softmax(table, dim=-1)[last]


@torch.no_grad()
def beam_search(model, beam, max_len, device):
    vocab = model.logits.size(0)
    tokens = torch.full((1, 1), BOS, dtype=torch.long, device=device)
    scores = torch.zeros(1, device=device)
    finished: List[Hypothesis] = []
    for step in range(max_len):
        log_probs = model(tokens[:, -1])
        if step == max_len - 1:  # the last step must end the sequence
            for row, s in zip(tokens.tolist(), (scores + log_probs[:, EOS]).tolist()):
                finished.append(Hypothesis(s, row + [EOS]))
            break
        total = (scores.unsqueeze(1) + log_probs).flatten()
        top, flat = total.topk(min(2 * beam, total.numel()))
        origin = torch.div(flat, vocab, rounding_mode="floor")
        token = flat % vocab
        ended = token == EOS
        for s, o in zip(top[ended].tolist(), origin[ended].tolist()):
            finished.append(Hypothesis(s, tokens[o].tolist() + [EOS]))
        alive = (~ended & top.isfinite()).nonzero().squeeze(1)[:beam]
        tokens = torch.cat([tokens[origin[alive]], token[alive].unsqueeze(1)], dim=1)
        scores = top[alive]
    return max(finished)


def exhaustive(model, vocab, max_len, device):
    table = model(torch.arange(vocab, device=device)).tolist()
    best = None
    for n in range(max_len):
        for middle in itertools.product(range(2, vocab), repeat=n):
            path = [BOS, *middle, EOS]
            score = sum(table[a][b] for a, b in zip(path, path[1:]))
            candidate = Hypothesis(score, path)
            best = candidate if best is None or candidate > best else best
    return best


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    g = torch.Generator().manual_seed(5)
    vocab, max_len = 6, 4
    model = BigramModel(vocab, g).to(device)
    wide = beam_search(model, beam=64, max_len=max_len, device=device)
    truth = exhaustive(model, vocab, max_len, device)
    narrow = beam_search(model, beam=1, max_len=max_len, device=device)
    assert abs(wide.score - truth.score) < 1e-4
    print(f"best {truth.tokens} {truth.score:.3f}; beam of one {narrow.tokens} {narrow.score:.3f}")


if __name__ == "__main__":
    main()
