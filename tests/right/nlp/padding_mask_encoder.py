"""A Transformer encoder with key padding masks and mean pooling over real tokens only."""
import math

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

PAD = 0


class Bags(Dataset):
    """Is token 1 more frequent than token 2 in the sequence?"""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.rows = []
        while len(self.rows) < n:
            length = int(torch.randint(3, 11, (1,), generator=g))
            tokens = torch.randint(1, 6, (length,), generator=g)
            diff = int((tokens == 1).sum() - (tokens == 2).sum())
            if diff != 0:
                self.rows.append((tokens, int(diff > 0)))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def pad_batch(rows):
    tokens = nn.utils.rnn.pad_sequence([t for t, _ in rows], batch_first=True, padding_value=PAD)
    return tokens, torch.tensor([y for _, y in rows])


class SinusoidalPositions(nn.Module):
    def __init__(self, dim, max_len=64):
        super().__init__()
        pos = torch.arange(max_len).unsqueeze(1)
        freq = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
        pe = torch.zeros(max_len, dim)
        pe[:, 0::2] = torch.sin(pos * freq)
        pe[:, 1::2] = torch.cos(pos * freq)
        self.register_buffer("pe", pe, persistent=False)

    def forward(self, x):
        return x + self.pe[: x.size(1)]


class Classifier(nn.Module):
    def __init__(self, vocab=6, dim=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.positions = SinusoidalPositions(dim)
        layer = nn.TransformerEncoderLayer(dim, 4, 64, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(dim, 2)

    def forward(self, tokens):
        is_pad = tokens.eq(PAD)
        h = self.encoder(self.positions(self.embed(tokens)), src_key_padding_mask=is_pad)
        keep = (~is_pad).unsqueeze(-1).to(h.dtype)
        return self.head((h * keep).sum(1) / keep.sum(1).clamp(min=1))


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train = DataLoader(Bags(512, 0), 64, shuffle=True, collate_fn=pad_batch)
    valid = DataLoader(Bags(200, 1), 100, collate_fn=pad_batch)
    model = Classifier().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    ce = nn.CrossEntropyLoss()
    for epoch in range(6):
        model.train()
        for tokens, y in train:
            tokens, y = tokens.to(device), y.to(device)
            opt.zero_grad()
            ce(model(tokens), y).backward()
            opt.step()
        model.eval()
        right = torch.zeros((), device=device)
        with torch.no_grad():
            for tokens, y in valid:
                right += (model(tokens.to(device)).argmax(1) == y.to(device)).sum()
        print(f"epoch {epoch}: accuracy {right.item() / len(valid.dataset):.3f}")


if __name__ == "__main__":
    main()
