# target: ParagraphIndex.add
"""In-memory index of paragraph vectors for a support-ticket search."""
from typing import List, Tuple

import torch
import torch.nn as nn


class ParagraphEncoder(nn.Module):
    def __init__(self, vocab: int = 3000, dim: int = 64, heads: int = 4, max_len: int = 128):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(0.02 * torch.randn(max_len, dim))
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(dim, heads, 2 * dim, batch_first=True), num_layers=1
        )

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.encoder(self.tok(tokens) + self.pos[: tokens.size(1)])


class ParagraphIndex:
    """Stores the vector at the first ([CLS]) position of each paragraph.

    Vectors are kept per added batch and only joined at query time, so that
    adding stays cheap while documents stream in.
    """

    def __init__(self, encoder: ParagraphEncoder):
        self.encoder = encoder.eval()
        self.ids: List[int] = []
        self.vectors: List[torch.Tensor] = []

    def __len__(self) -> int:
        return len(self.ids)

    @torch.no_grad()
    def add(self, ids: List[int], tokens: torch.Tensor) -> None:
        if len(ids) != tokens.size(0):
            raise ValueError("one id per paragraph is needed")
        hidden = self.encoder(tokens)
        self.ids.extend(ids)
        self.vectors.append(hidden[:, 0].clone())

    @torch.no_grad()
    def query(self, tokens: torch.Tensor, k: int = 5) -> List[Tuple[int, float]]:
        """Ids and cosine similarities of the k nearest paragraphs; tokens (1, T)."""
        probe = self.encoder(tokens)[:, 0]
        scores = torch.cosine_similarity(probe, torch.cat(self.vectors), dim=1)
        best = scores.topk(min(k, len(self)))
        return [(self.ids[i], s) for s, i in zip(best.values.tolist(), best.indices.tolist())]


def build_index(n_batches: int = 10, batch_size: int = 32) -> ParagraphIndex:
    torch.manual_seed(0)
    index = ParagraphIndex(ParagraphEncoder())
    for b in range(n_batches):
        ids = list(range(b * batch_size, (b + 1) * batch_size))
        index.add(ids, torch.randint(0, 3000, (batch_size, 128)))
    return index


if __name__ == "__main__":
    print(build_index().query(torch.randint(0, 3000, (1, 128))))
