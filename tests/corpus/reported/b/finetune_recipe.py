# source: https://github.com/meta-pytorch/torchtune/pull/522
# target: FullFinetuneRecipe.train
# truth: loss.item() runs on every step although it is only used every log_every_n_steps; on a GPU each call waits for
#   the stream (40-50 ms a step in the report) and the CPU never runs ahead; results are the same
import sys
import time
from dataclasses import dataclass
from typing import Dict, List, Optional

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class RecipeConfig:
    device: str = "cuda" if torch.cuda.is_available() else "cpu"
    epochs: int = 2
    batch_size: int = 8
    gradient_accumulation_steps: int = 1
    max_steps_per_epoch: Optional[int] = None
    log_every_n_steps: int = 10
    lr: float = 2e-3
    seed: int = 0


class InstructDataset(Dataset):
    """Prompt tokens are masked out of the labels with the ignore index."""

    def __init__(self, size: int, vocab: int, length: int, ignore_index: int = -100):
        g = torch.Generator().manual_seed(1)
        start = torch.randint(0, vocab, (size, 1), generator=g)
        self.tokens = (start + 3 * torch.arange(length)) % vocab
        self.labels = self.tokens.clone()
        self.labels[:, : length // 4] = ignore_index

    def __len__(self) -> int:
        return self.tokens.size(0)

    def __getitem__(self, i: int):
        return self.tokens[i], self.labels[i]


class TinyDecoder(nn.Module):
    def __init__(self, vocab: int, dim: int, max_len: int):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(max_len, dim)
        self.layer = nn.TransformerEncoderLayer(dim, 4, 2 * dim, dropout=0.0, batch_first=True)
        self.out = nn.Linear(dim, vocab)
        self.register_buffer("causal", torch.triu(torch.ones(max_len, max_len, dtype=torch.bool), 1))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        n = tokens.size(1)
        x = self.tok(tokens) + self.pos.weight[:n]
        return self.out(self.layer(x, src_mask=self.causal[:n, :n]))


class MetricLogger:
    def __init__(self, stream=sys.stdout):
        self.stream, self.rows = stream, []

    def log_dict(self, payload: Dict[str, float], step: int) -> None:
        self.rows.append((step, payload))
        print(f"step {step} " + " ".join(f"{k}:{v:.4f}" for k, v in payload.items()), file=self.stream)


class FullFinetuneRecipe:
    def __init__(self, cfg: RecipeConfig):
        self.cfg = cfg
        self.device = torch.device(cfg.device)
        self.total_training_steps = 0

    def setup(self) -> None:
        torch.manual_seed(self.cfg.seed)
        self.model = TinyDecoder(vocab=31, dim=32, max_len=16).to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=self.cfg.lr)
        self.loss_fn = nn.CrossEntropyLoss(ignore_index=-100)
        self.dataloader = DataLoader(InstructDataset(200, 31, 16), batch_size=self.cfg.batch_size, shuffle=True)
        self.metric_logger = MetricLogger()

    def _should_update_weights(self, idx: int) -> bool:
        return (idx + 1) % self.cfg.gradient_accumulation_steps == 0

    def train(self) -> None:
        started = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        for epoch in range(self.cfg.epochs):
            for idx, batch in enumerate(self.dataloader):
                if self.cfg.max_steps_per_epoch is not None and idx == self.cfg.max_steps_per_epoch:
                    break
                tokens, labels = (t.to(self.device, non_blocking=True) for t in batch)
                logits = self.model(tokens)[:, :-1]
                loss = self.loss_fn(logits.flatten(0, 1), labels[:, 1:].flatten())
                loss_value = loss.item()  # culprit
                if self.total_training_steps % self.cfg.log_every_n_steps == 0:
                    payload = {"loss": loss_value, "lr": self.optimizer.param_groups[0]["lr"]}
                    self.metric_logger.log_dict(payload, self.total_training_steps)
                (loss / self.cfg.gradient_accumulation_steps).backward()
                if self._should_update_weights(idx):
                    self.optimizer.step()
                    self.optimizer.zero_grad(set_to_none=True)
                    self.total_training_steps += 1
        print(f"done in {time.perf_counter() - started:.1f}s")


def recipe_main() -> None:
    recipe = FullFinetuneRecipe(RecipeConfig())
    recipe.setup()
    recipe.train()


if __name__ == "__main__":
    recipe_main()
