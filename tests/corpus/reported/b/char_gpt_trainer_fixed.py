# source: https://github.com/pytorch/examples/issues/1196
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


@dataclass
class TrainerConfig:
    max_epochs: int = 2
    batch_size: int = 16
    grad_norm_clip: float = 1.0
    lr: float = 0.5
    use_amp: bool = True


@dataclass
class GPTConfig:
    vocab_size: int
    block_size: int = 16
    n_embd: int = 32
    n_head: int = 2
    n_layer: int = 1


class CharDataset(Dataset):
    def __init__(self, text: str, block_size: int):
        chars = sorted(set(text))
        self.stoi = {c: i for i, c in enumerate(chars)}
        self.data = torch.tensor([self.stoi[c] for c in text])
        self.block_size = block_size

    def __len__(self):
        return len(self.data) - self.block_size

    def __getitem__(self, idx):
        chunk = self.data[idx:idx + self.block_size + 1]
        return chunk[:-1], chunk[1:]


class GPT(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        self.tok_emb = nn.Embedding(config.vocab_size, config.n_embd)
        self.pos_emb = nn.Parameter(torch.zeros(1, config.block_size, config.n_embd))
        layer = nn.TransformerEncoderLayer(config.n_embd, config.n_head, 2 * config.n_embd, dropout=0.0,
                                           batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, config.n_layer, enable_nested_tensor=False)
        self.head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        mask = torch.triu(torch.full((config.block_size, config.block_size), float("-inf")), 1)
        self.register_buffer("mask", mask)

    def forward(self, idx, targets):
        x = self.tok_emb(idx) + self.pos_emb
        logits = self.head(self.blocks(x, mask=self.mask))
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Trainer:
    def __init__(self, config: TrainerConfig, model: GPT, train_dataset: Dataset):
        self.config = config
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = model.to(self.device)
        self.loader = DataLoader(train_dataset, batch_size=config.batch_size, shuffle=True, drop_last=True)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=config.lr)
        self.scaler = torch.amp.GradScaler(self.device) if config.use_amp else None

    def _run_batch(self, source, targets) -> float:
        amp_dtype = torch.float16 if self.device == "cuda" else torch.bfloat16
        with torch.amp.autocast(device_type=self.device, dtype=amp_dtype, enabled=self.config.use_amp):
            _, loss = self.model(source, targets)
        self.optimizer.zero_grad(set_to_none=True)
        if self.scaler is not None:
            self.scaler.scale(loss).backward()
            self.scaler.unscale_(self.optimizer)
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.grad_norm_clip)
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.grad_norm_clip)
            self.optimizer.step()
        return loss.item()

    def train(self):
        for epoch in range(self.config.max_epochs):
            first = last = None
            for source, targets in self.loader:
                last = self._run_batch(source.to(self.device), targets.to(self.device))
                first = last if first is None else first
            print(f"epoch {epoch + 1} | first {first:.4f} last {last:.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    data = CharDataset("the quick brown fox jumps over the lazy dog. " * 12, 16)
    Trainer(TrainerConfig(), GPT(GPTConfig(len(data.stoi))), data).train()
