# target: Trainer.run_epoch
# truth: labels.to(device) returns a new tensor that is thrown away, so labels stay on the CPU; on a GPU machine the loss raises
#   "Expected all tensors to be on the same device" (logits on cuda:0, target on cpu).
"""Intent classification for a support chat bot."""
import logging
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger(__name__)


class IntentDataset(Dataset):
    def __init__(self, rows, pad_to=20):
        self.rows, self.pad_to = rows, pad_to

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        ids, label = self.rows[i]
        ids = list(ids)[: self.pad_to]
        ids = ids + [0] * (self.pad_to - len(ids))
        return torch.tensor(ids), torch.tensor(label)


class BagOfEmbeddings(nn.Module):
    def __init__(self, vocab_size, n_intents, dim=64):
        super().__init__()
        self.emb = nn.Embedding(vocab_size, dim, padding_idx=0)
        self.ff = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Dropout(0.2), nn.Linear(dim, n_intents))

    def forward(self, ids):
        mask = (ids != 0).unsqueeze(-1).float()
        pooled = (self.emb(ids) * mask).sum(1) / mask.sum(1).clamp(min=1)
        return self.ff(pooled)


class Trainer:
    def __init__(self, model, device=None, lr=1e-3):
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.model = model.to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.criterion = nn.CrossEntropyLoss()

    def run_epoch(self, loader):
        self.model.train()
        running = 0.0
        for ids, labels in loader:
            ids = ids.to(self.device)
            labels.to(self.device)  # error: DG202|DG205
            logits = self.model(ids)
            loss = self.criterion(logits, labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            running += loss.item() * ids.size(0)
        return running / len(loader.dataset)


def fit(rows, vocab_size, n_intents, epochs=3):
    loader = DataLoader(IntentDataset(rows), batch_size=16, shuffle=True)
    trainer = Trainer(BagOfEmbeddings(vocab_size, n_intents))
    for epoch in range(epochs):
        log.info("epoch %d loss %.4f", epoch, trainer.run_epoch(loader))
    return trainer.model
