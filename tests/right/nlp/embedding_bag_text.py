"""Text classification with EmbeddingBag and offsets, the vocabulary built from the training part."""
from collections import Counter

import torch
from torch import nn
from torch.utils.data import DataLoader

GOOD = ["lovely plot and great cast", "a great and warm film", "lovely film , warm cast", "great great plot"] * 8
BAD = ["dull plot and weak cast", "a weak and cold film", "dull film , cold cast", "weak weak plot"] * 8


def build_vocab(texts, min_count=1):
    counts = Counter(word for text in texts for word in text.split())
    words = ["<unk>"] + sorted(w for w, c in counts.items() if c >= min_count)
    return {w: i for i, w in enumerate(words)}


class Collate:
    def __init__(self, vocab):
        self.vocab = vocab

    def __call__(self, rows):
        ids = [[self.vocab.get(w, 0) for w in text.split()] for text, _ in rows]
        lengths = torch.tensor([0] + [len(i) for i in ids[:-1]])
        flat = torch.tensor([j for row in ids for j in row])
        return flat, lengths.cumsum(0), torch.tensor([label for _, label in rows])


class TextClassifier(nn.Module):
    def __init__(self, vocab_size, dim=16, classes=2):
        super().__init__()
        self.bag = nn.EmbeddingBag(vocab_size, dim, mode="mean")
        self.fc = nn.Linear(dim, classes)

    def forward(self, tokens, offsets):
        return self.fc(self.bag(tokens, offsets))


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows = [(t, 1) for t in GOOD] + [(t, 0) for t in BAD]
    order = torch.randperm(len(rows)).tolist()
    rows = [rows[i] for i in order]
    train, test = rows[:48], rows[48:]
    vocab = build_vocab(text for text, _ in train)
    collate = Collate(vocab)
    loader = DataLoader(train, batch_size=8, shuffle=True, collate_fn=collate)
    model = TextClassifier(len(vocab)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    loss_fn = nn.CrossEntropyLoss()
    model.train()
    for _ in range(10):
        for tokens, offsets, labels in loader:
            tokens, offsets, labels = tokens.to(device), offsets.to(device), labels.to(device)
            optimizer.zero_grad()
            loss = loss_fn(model(tokens, offsets), labels)
            loss.backward()
            optimizer.step()
    model.eval()
    tokens, offsets, labels = collate(test)
    with torch.no_grad():
        pred = model(tokens.to(device), offsets.to(device)).argmax(1).cpu()
    print(f"test accuracy {(pred == labels).float().mean():.2f}, vocabulary {len(vocab)}")


if __name__ == "__main__":
    main()
