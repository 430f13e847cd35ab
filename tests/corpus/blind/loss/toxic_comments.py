# target: script
# truth: The multi-hot labels are int64, but BCEWithLogitsLoss needs float targets, so the loss in the first training batch raises "result type Float can't be cast to the desired output type Long".
# Multi-label toxic comment classification with a bag-of-embeddings model
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

LABELS = ["toxic", "obscene", "threat", "insult", "identity_hate"]
VOCAB = 500


class Comments(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, idx):
        row = self.rows[idx]
        tokens = torch.tensor(row["tokens"])
        labels = torch.tensor([row[name] for name in LABELS])  # error: DG310
        return tokens, labels


def collate(samples):
    tokens, labels = zip(*samples)
    offsets = torch.tensor([0] + [len(t) for t in tokens[:-1]]).cumsum(0)
    return torch.cat(tokens), offsets, torch.stack(labels)


class BagClassifier(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.bag = nn.EmbeddingBag(VOCAB, dim, mode="mean")
        self.mlp = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, len(LABELS)))

    def forward(self, tokens, offsets):
        return self.mlp(self.bag(tokens, offsets))


def read_comments(n=200, seed=11):
    rng = random.Random(seed)
    rows = []
    for _ in range(n):
        row = {"tokens": [rng.randrange(VOCAB) for _ in range(rng.randint(4, 30))]}
        row.update({name: int(rng.random() < 0.15) for name in LABELS})
        rows.append(row)
    return rows


torch.manual_seed(11)
loader = DataLoader(Comments(read_comments()), batch_size=32, shuffle=True, collate_fn=collate)
model = BagClassifier()
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

for epoch in range(2):
    running = 0.0
    for tokens, offsets, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(tokens, offsets), labels)
        loss.backward()
        optimizer.step()
        running += loss.item()
    print(f"epoch {epoch + 1}: {running / len(loader):.4f}")
