# target: script
# truth: The scheduler is meant to decay the learning rate every 2 epochs but is stepped after every batch, so the rate falls to about
#   1e-13 within the first epochs and training stops improving. No error.
"""Pre-training of a tiny causal transformer on arithmetic strings."""
import random
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import StepLR

CHARS = "0123456789+= "
STOI = {c: i for i, c in enumerate(CHARS)}


class TinyGPT(nn.Module):
    def __init__(self, d=32, heads=2, depth=2, max_len=16):
        super().__init__()
        self.tok = nn.Embedding(len(CHARS), d)
        self.pos = nn.Parameter(torch.zeros(1, max_len, d))
        block = nn.TransformerEncoderLayer(d, heads, 4 * d, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, depth, enable_nested_tensor=False)
        self.head = nn.Linear(d, len(CHARS))

    def forward(self, ids):
        T = ids.size(1)
        causal = nn.Transformer.generate_square_subsequent_mask(T, device=ids.device)
        return self.head(self.blocks(self.tok(ids) + self.pos[:, :T], mask=causal, is_causal=True))


def make_sums(n):
    rows = []
    for _ in range(n):
        a, b = random.randint(0, 99), random.randint(0, 99)
        text = f"{a}+{b}={a + b}".ljust(10)
        rows.append([STOI[c] for c in text])
    return torch.tensor(rows)


class Pretrainer:
    def __init__(self, model, data, batch_size=32, lr=3e-3):
        self.model, self.data, self.batch_size = model, data, batch_size
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        # divide the rate by ten every two epochs
        self.scheduler = StepLR(self.optimizer, step_size=2, gamma=0.1)

    def epoch(self):
        total = 0.0
        perm = torch.randperm(len(self.data)).split(self.batch_size)
        for idx in perm:
            ids = self.data[idx]
            logits = self.model(ids[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()  # error: DG709
            total += loss.item()
        return total / len(perm)

    def fit(self, epochs):
        for e in range(epochs):
            loss = self.epoch()
            print(f"epoch {e}: loss {loss:.3f}, lr {self.scheduler.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    random.seed(0)
    torch.manual_seed(0)
    Pretrainer(TinyGPT(), make_sums(640)).fit(epochs=4)
