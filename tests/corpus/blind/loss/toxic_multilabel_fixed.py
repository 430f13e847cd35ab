# target: script
"""Toxic comment classification (multi-label), baseline without pretrained model."""
import random
from types import SimpleNamespace

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

LABELS = ["toxic", "severe_toxic", "obscene", "threat", "insult", "identity_hate"]
cfg = SimpleNamespace(vocab=2000, max_len=40, dim=64, batch_size=32, epochs=2, lr=2e-3, seed=5)


class CommentDataset(Dataset):
    """rows: list of (token ids, list of six 0/1 labels), as read from train.csv."""

    def __init__(self, rows, max_len):
        self.rows = rows
        self.max_len = max_len

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, idx):
        ids, labels = self.rows[idx]
        ids = ids[: self.max_len]
        ids = ids + [0] * (self.max_len - len(ids))
        return {"ids": torch.tensor(ids), "labels": torch.tensor(labels, dtype=torch.float32)}


class TextCNN(nn.Module):
    def __init__(self, vocab, dim, n_labels, widths=(2, 3, 4), channels=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.convs = nn.ModuleList([nn.Conv1d(dim, channels, w) for w in widths])
        self.drop = nn.Dropout(0.3)
        self.fc = nn.Linear(channels * len(widths), n_labels)

    def forward(self, ids):
        x = self.emb(ids).transpose(1, 2)
        pooled = [torch.relu(conv(x)).amax(dim=2) for conv in self.convs]
        return self.fc(self.drop(torch.cat(pooled, dim=1)))


def fake_rows(n):
    rows = []
    for _ in range(n):
        ids = [random.randrange(1, cfg.vocab) for _ in range(random.randint(5, 60))]
        labels = [int(random.random() < 0.2) for _ in LABELS]
        for k, flag in enumerate(labels):
            if flag:
                ids[random.randrange(min(len(ids), cfg.max_len))] = k + 1
        rows.append((ids, labels))
    return rows


def label_weights(rows):
    """pos_weight per label: negatives / positives."""
    y = torch.tensor([labels for _, labels in rows], dtype=torch.float32)
    pos = y.sum(dim=0).clamp(min=1)
    return (len(rows) - pos) / pos


def main():
    random.seed(cfg.seed)
    torch.manual_seed(cfg.seed)
    rows = fake_rows(640)
    loader = DataLoader(CommentDataset(rows, cfg.max_len), batch_size=cfg.batch_size, shuffle=True)
    model = TextCNN(cfg.vocab, cfg.dim, len(LABELS))
    criterion = nn.BCEWithLogitsLoss(pos_weight=label_weights(rows))
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    for epoch in range(cfg.epochs):
        running = 0.0
        for batch in loader:
            loss = criterion(model(batch["ids"]), batch["labels"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item()
        print(f"epoch {epoch}: loss {running / len(loader):.4f}")


if __name__ == "__main__":
    main()
