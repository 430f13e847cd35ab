# target: script
# truth: Silently wrong: src_key_padding_mask is inverted (True must mark padding, here it marks the real clicks), so attention ignores every real click and looks only at padding; the model cannot see the order of the clicks and learns badly.
"""Detect fraudulent shop sessions from the click sequence."""
import argparse

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

PAD_ID = 0


class SessionDataset(Dataset):
    """Variable-length sessions; fraud sessions jump from the cart to payment without browsing."""

    def __init__(self, n: int, n_pages: int, max_len: int):
        self.sessions, self.labels = [], []
        for i in range(n):
            length = int(torch.randint(4, max_len + 1, ()))
            clicks = torch.randint(3, n_pages, (length,))
            if i % 4 == 0:
                at = int(torch.randint(0, length - 1, ()))
                clicks[at], clicks[at + 1] = 1, 2
            self.sessions.append(clicks)
            self.labels.append(float(i % 4 == 0))

    def __len__(self):
        return len(self.sessions)

    def __getitem__(self, i):
        return self.sessions[i], self.labels[i]


def collate(items):
    sessions, labels = zip(*items)
    return pad_sequence(sessions, batch_first=True, padding_value=PAD_ID), torch.tensor(labels)


class SessionModel(nn.Module):
    def __init__(self, n_pages: int, max_len: int, dim: int = 32, heads: int = 4, layers: int = 2):
        super().__init__()
        self.page = nn.Embedding(n_pages, dim, padding_idx=PAD_ID)
        self.position = nn.Embedding(max_len, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.score = nn.Linear(dim, 1)

    def forward(self, clicks: torch.Tensor) -> torch.Tensor:
        mask = clicks != PAD_ID
        pos = torch.arange(clicks.size(1), device=clicks.device)
        h = self.encoder(self.page(clicks) + self.position(pos), src_key_padding_mask=mask)  # error: DG751
        m = mask.unsqueeze(-1).float()
        return self.score((h * m).sum(dim=1) / m.sum(dim=1)).squeeze(-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--n-pages", type=int, default=60)
    parser.add_argument("--max-len", type=int, default=24)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=2e-3)
    args = parser.parse_args()

    torch.manual_seed(0)
    dataset = SessionDataset(800, args.n_pages, args.max_len)
    loader = DataLoader(dataset, args.batch_size, shuffle=True, collate_fn=collate)
    model = SessionModel(args.n_pages, args.max_len)
    criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        total = 0.0
        for clicks, labels in loader:
            loss = criterion(model(clicks), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.4f}")


if __name__ == "__main__":
    main()
