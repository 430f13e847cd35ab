# target: recall_at_k
# truth: `.numpy()` of a tensor on the GPU: "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy
#   the tensor to host memory first."
"""Recall of an embedding model in a retrieval task."""

import numpy as np
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, vocabulary=500, width=32):
        super().__init__()
        self.bag = nn.EmbeddingBag(vocabulary, width, mode="mean")
        self.project = nn.Linear(width, width)

    def forward(self, tokens):
        return nn.functional.normalize(self.project(self.bag(tokens)), dim=-1)


@torch.no_grad()
def embed(model, batches, device):
    model.eval()
    return torch.cat([model(batch.to(device)) for batch in batches])


def recall_at_k(queries, documents, k=5):
    """Share of queries whose own document is among the k nearest."""
    similarity = queries @ documents.t()
    nearest = similarity.topk(k, dim=1).indices.numpy()  # error: DG207
    wanted = np.arange(len(nearest))[:, None]
    return float((nearest == wanted).any(axis=1).mean())


def evaluate():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Encoder().to(device)
    tokens = torch.randint(0, 500, (3, 8, 12))
    queries = embed(model, tokens, device)
    documents = embed(model, tokens.flip(-1), device)
    return recall_at_k(queries, documents)


if __name__ == "__main__":
    print(f"recall@5 {evaluate():.3f}")
