"""S8: a token beyond the vocabulary."""

import torch
import torch.nn as nn


class Encoder(nn.Module):
    def __init__(self, vocabulary):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 16)

    def forward(self, tokens):
        return self.embedding(tokens).mean(dim=1)


if __name__ == "__main__":
    tokens = torch.arange(96, 104).view(2, 4).cuda()
    Encoder(100).cuda()(tokens).sum().backward()  # expect: DG302
