# target: script
# truth: Silently wrong: the mid-epoch validation puts the model in eval mode and nothing puts it back, so after the first validation the rest of the epoch trains without dropout.
"""Train the invoice-field tagger (BIO tags) with validation every N steps."""
import argparse

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

TAGS = ["O", "B-TOTAL", "I-TOTAL", "B-DATE", "I-DATE"]
IGNORE = -100


class Tagger(nn.Module):
    def __init__(self, vocab, dim=48, hidden=64, dropout=0.4):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.drop = nn.Dropout(dropout)
        self.lstm = nn.LSTM(dim, hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, len(TAGS))

    def forward(self, tokens):
        h, _ = self.lstm(self.drop(self.emb(tokens)))
        return self.out(self.drop(h))


def collate(rows):
    tokens = pad_sequence([r[0] for r in rows], batch_first=True, padding_value=0)
    tags = pad_sequence([r[1] for r in rows], batch_first=True, padding_value=IGNORE)
    return tokens, tags


def make_rows(n, vocab):
    rows = []
    for _ in range(n):
        tokens = torch.randint(1, vocab, (int(torch.randint(6, 20, ())),))
        rows.append((tokens, tokens % len(TAGS)))
    return rows


class TaggerTrainer:
    def __init__(self, args):
        self.args = args
        self.model = Tagger(args.vocab)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=args.lr)
        self.criterion = nn.CrossEntropyLoss(ignore_index=IGNORE)
        self.train_loader = DataLoader(make_rows(640, args.vocab), 16, shuffle=True, collate_fn=collate)
        self.valid_loader = DataLoader(make_rows(96, args.vocab), 32, collate_fn=collate)

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        hits = total = 0
        for tokens, tags in self.valid_loader:
            keep = tags != IGNORE
            hits += (self.model(tokens).argmax(-1) == tags)[keep].sum().item()
            total += keep.sum().item()
        return hits / total

    def fit(self):
        step = 0
        for epoch in range(self.args.epochs):
            self.model.train()
            for tokens, tags in self.train_loader:
                loss = self.criterion(self.model(tokens).flatten(0, 1), tags.flatten())
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                step += 1
                if step % self.args.eval_every == 0:
                    acc = self.validate()  # error: DG710
                    print(f"epoch {epoch} step {step}: loss {loss.item():.4f} valid acc {acc:.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--vocab", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--eval-every", type=int, default=10)
    torch.manual_seed(0)
    TaggerTrainer(parser.parse_args()).fit()
