# target: script
# source: https://github.com/pytorch/pytorch/issues/43227
# truth: none, the repaired twin of speech_packed_gru.py
from typing import Dict, List, Tuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
Example = Tuple[Tensor, int]


def fake_utterance(gen: torch.Generator) -> Example:
    label = int(torch.randint(0, 3, (1,), generator=gen))
    n = int(torch.randint(12, 40, (1,), generator=gen))
    t = torch.arange(n).float()
    freqs = torch.tensor([0.2, 0.5, 1.1])[label] * torch.linspace(0.5, 1.5, 12)
    feats = torch.sin(t[:, None] * freqs[None]) + 0.3 * torch.randn(n, 12, generator=gen)
    return feats, label


def collate(items: List[Example]) -> Dict[str, Tensor]:
    items = sorted(items, key=lambda e: e[0].size(0), reverse=True)
    return {
        "feats": pad_sequence([f for f, _ in items], batch_first=True),
        "lengths": torch.tensor([f.size(0) for f, _ in items]),
        "labels": torch.tensor([y for _, y in items]),
    }


def to_device(batch: Dict[str, Tensor]) -> Dict[str, Tensor]:
    return {k: v.to(DEVICE) for k, v in batch.items()}


class KeywordNet(nn.Module):
    def __init__(self, n_feats: int = 12, hidden: int = 32, n_classes: int = 3) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(n_feats)
        self.gru = nn.GRU(n_feats, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, n_classes)

    def forward(self, feats: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(self.norm(feats), lengths.cpu(), batch_first=True)
        out, _ = self.gru(packed)
        out, n = pad_packed_sequence(out, batch_first=True)
        return self.head(out.sum(1) / n.to(out.device).unsqueeze(1))


class Trainer:
    def __init__(self, model: nn.Module, lr: float = 3e-3) -> None:
        self.model = model.to(DEVICE)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.crit = nn.CrossEntropyLoss()

    def epoch(self, loader: DataLoader) -> Tuple[float, float]:
        total, hits, seen = 0.0, 0, 0
        for batch in loader:
            batch = to_device(batch)
            logits = self.model(batch["feats"], batch["lengths"])
            loss = self.crit(logits, batch["labels"])
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            total += loss.item() * len(logits)
            hits += int((logits.argmax(1) == batch["labels"]).sum())
            seen += len(logits)
        return total / seen, hits / seen


if __name__ == "__main__":
    torch.manual_seed(1)
    gen = torch.Generator().manual_seed(2)
    data = [fake_utterance(gen) for _ in range(192)]
    loader = DataLoader(data, batch_size=16, shuffle=True, collate_fn=collate)
    trainer = Trainer(KeywordNet())
    for ep in range(4):
        print("epoch %d loss %.3f acc %.3f" % (ep, *trainer.epoch(loader)))
