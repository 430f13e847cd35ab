# source: https://github.com/webis-de/small-text/issues/40
# target: TextClassification.fit
# truth: with validations_per_epoch > 1 the mid-epoch validation leaves the model in eval mode; the remaining batches
#   of every epoch train without dropout, silently
import random
from dataclasses import dataclass, field
from typing import List, Optional, Tuple

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset


class TextDataset(Dataset):
    def __init__(self, texts: List[torch.Tensor], labels: List[int]):
        self.texts, self.labels = texts, labels

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, i: int) -> Tuple[torch.Tensor, int]:
        return self.texts[i], self.labels[i]


def collate(batch):
    return pad_sequence([t for t, _ in batch], batch_first=True), torch.tensor([y for _, y in batch])


class Encoder(nn.Module):
    def __init__(self, vocab: int, dim: int, num_classes: int, dropout: float):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.layer = nn.TransformerEncoderLayer(dim, 2, 2 * dim, dropout=dropout, batch_first=True)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(dim, num_classes))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        pad = ids == 0
        h = self.layer(self.embed(ids), src_key_padding_mask=pad)
        h = h.masked_fill(pad.unsqueeze(-1), 0.0).sum(1) / (~pad).sum(1, keepdim=True)
        return self.classifier(h)


@dataclass
class TextClassification:
    num_classes: int
    vocab: int
    num_epochs: int = 3
    lr: float = 2e-3
    mini_batch_size: int = 12
    validations_per_epoch: int = 2
    dropout: float = 0.3
    model: Optional[Encoder] = None
    validation_history: List[float] = field(default_factory=list)

    def fit(self, train_set: TextDataset, valid_set: TextDataset) -> "TextClassification":
        self.model = Encoder(self.vocab, 32, self.num_classes, self.dropout)
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=self.lr)
        criterion = nn.CrossEntropyLoss()
        for epoch in range(self.num_epochs):
            train_loss = self._train_loop_epoch(train_set, valid_set, criterion, optimizer)
            print(f"epoch {epoch} loss {train_loss:.4f} valid {self.validation_history[-1]:.4f}")
        return self

    def _train_loop_epoch(self, train_set, valid_set, criterion, optimizer) -> float:
        loader = DataLoader(train_set, self.mini_batch_size, shuffle=True, collate_fn=collate)
        every = max(1, len(loader) // self.validations_per_epoch)
        total = 0.0
        self.model.train()
        for step, batch in enumerate(loader, start=1):
            total += self._train_single_batch(batch, criterion, optimizer)
            if step % every == 0:
                self.validation_history.append(self.validate(valid_set, criterion))  # culprit
        return total / len(loader)

    def _train_single_batch(self, batch, criterion, optimizer) -> float:
        ids, labels = batch
        optimizer.zero_grad()
        loss = criterion(self.model(ids), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    def validate(self, valid_set: TextDataset, criterion) -> float:
        self.model.eval()
        total, n = 0.0, 0
        with torch.no_grad():
            for ids, labels in DataLoader(valid_set, self.mini_batch_size, collate_fn=collate):
                total += criterion(self.model(ids), labels).item() * len(labels)
                n += len(labels)
        return total / n


def toy_corpus(n: int, vocab: int) -> TextDataset:
    texts, labels = [], []
    for _ in range(n):
        y = random.randint(0, 1)
        lo, hi = (1, vocab // 2 + 5) if y == 0 else (vocab // 2 - 5, vocab - 1)
        texts.append(torch.tensor([random.randint(lo, hi) for _ in range(random.randint(4, 10))]))
        labels.append(y)
    return TextDataset(texts, labels)


if __name__ == "__main__":
    random.seed(0)
    torch.manual_seed(0)
    clf = TextClassification(num_classes=2, vocab=60).fit(toy_corpus(144, 60), toy_corpus(48, 60))
    print(len(clf.validation_history), "validations")
