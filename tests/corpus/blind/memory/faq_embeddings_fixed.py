# target: encode_corpus
"""Offline job: encode the FAQ corpus for nearest-neighbour search and write it as .npy."""
import argparse
from typing import Iterator, List, Sequence

import numpy as np
import torch
import torch.nn as nn

PAD = 0


class SentenceEncoder(nn.Module):
    def __init__(self, vocab_size: int = 30000, dim: int = 128, layers: int = 2, heads: int = 4):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, dim, padding_idx=PAD)
        block = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        mask = ids.eq(PAD)
        h = self.encoder(self.embed(ids), src_key_padding_mask=mask)
        weights = (~mask).unsqueeze(-1).to(h.dtype)
        pooled = (h * weights).sum(1) / weights.sum(1).clamp(min=1)
        return nn.functional.normalize(pooled, dim=-1)


def batches(corpus: Sequence[List[int]], batch_size: int) -> Iterator[torch.Tensor]:
    for start in range(0, len(corpus), batch_size):
        rows = [torch.tensor(ids) for ids in corpus[start:start + batch_size]]
        yield nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)


@torch.no_grad()
def encode_corpus(
    model: nn.Module, corpus: Sequence[List[int]], batch_size: int = 64, device: str = "cpu"
) -> np.ndarray:
    """Return an array (len(corpus), dim) of unit-length embeddings."""
    model.to(device).eval()
    chunks = []
    for ids in batches(corpus, batch_size):
        chunks.append(model(ids.to(device)))
    return torch.cat(chunks).cpu().numpy()


def read_corpus(path: str) -> List[List[int]]:
    """One question per line, already tokenised to space-separated ids."""
    with open(path) as f:
        return [[int(t) for t in line.split()] for line in f if line.strip()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus")
    parser.add_argument("checkpoint")
    parser.add_argument("--out", default="faq_embeddings.npy")
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()

    model = SentenceEncoder()
    model.load_state_dict(torch.load(args.checkpoint, map_location="cpu"))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    embeddings = encode_corpus(model, read_corpus(args.corpus), args.batch_size, device)
    np.save(args.out, embeddings)
    print(f"wrote {embeddings.shape} to {args.out}")


if __name__ == "__main__":
    main()
