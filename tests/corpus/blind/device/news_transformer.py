# target: train
# truth: The positional table is a plain attribute, not a buffer, so model.to("cuda") leaves it on the CPU and the first forward pass on a GPU raises "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!".
import math

import torch
import torch.nn as nn


class PositionalEncoding(nn.Module):
    """Sinusoidal position information, added to the token embeddings."""

    def __init__(self, d_model: int, max_len: int = 512, dropout: float = 0.1):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, d_model)
        pe[:, 0::2] = torch.sin(position * div)
        pe[:, 1::2] = torch.cos(position * div)
        self.pe = pe.unsqueeze(0)  # error: DG204

    def forward(self, x):
        return self.dropout(x + self.pe[:, : x.size(1)])


class NewsClassifier(nn.Module):
    def __init__(self, vocab_size=2000, d_model=64, heads=4, layers=2, n_classes=4, pad_id=0):
        super().__init__()
        self.pad_id = pad_id
        self.embed = nn.Embedding(vocab_size, d_model, padding_idx=pad_id)
        self.pos = PositionalEncoding(d_model)
        layer = nn.TransformerEncoderLayer(d_model, heads, 4 * d_model, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.fc = nn.Linear(d_model, n_classes)

    def forward(self, tokens):
        pad = tokens == self.pad_id
        h = self.encoder(self.pos(self.embed(tokens)), src_key_padding_mask=pad)
        keep = (~pad).unsqueeze(-1).float()
        return self.fc((h * keep).sum(1) / keep.sum(1))


def batches(n_batches, batch_size=16, length=40):
    for _ in range(n_batches):
        tokens = torch.randint(1, 2000, (batch_size, length))
        tokens[:, 30:] = torch.where(torch.rand(batch_size, 1) < 0.5, 0, tokens[:, 30:])
        yield tokens, torch.randint(0, 4, (batch_size,))


def train(steps: int = 5):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = NewsClassifier().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    criterion = nn.CrossEntropyLoss()
    for tokens, labels in batches(steps):
        tokens, labels = tokens.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = criterion(model(tokens), labels)
        loss.backward()
        optimizer.step()
    return model
