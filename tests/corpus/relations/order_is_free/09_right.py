import torch
import torch.nn as nn
import torch.nn.functional as F


class SpanTagger(nn.Module):
    def __init__(self, vocab=150, emb=16, hidden=16, tags=5):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb)
        self.lstm = nn.LSTM(emb, hidden, bidirectional=True, batch_first=True)
        self.proj = nn.Linear(2 * hidden, tags)

    def forward(self, ids):
        """ids (batch, time) -> tag scores (batch, time, tags)"""
        states, _ = self.lstm(self.embedding(ids))
        return self.proj(states)


def tag_accuracy(model, ids, tags):
    model.eval()
    with torch.no_grad():
        pred = model(ids).argmax(-1)
    return (pred == tags).float().mean().item()


def train_epoch(model, opt, ids, tags, bs=8):
    model.train()
    for start in range(0, len(ids), bs):
        scores = model(ids[start:start + bs])
        loss = F.cross_entropy(scores.flatten(0, 1), tags[start:start + bs].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


def main():
    torch.manual_seed(11)
    ids = torch.randint(0, 150, (32, 9))
    tags = (ids + ids.roll(1, dims=1)) % 5
    model = SpanTagger()
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(3):
        print(epoch, train_epoch(model, opt, ids, tags), tag_accuracy(model, ids, tags))


if __name__ == "__main__":
    main()
