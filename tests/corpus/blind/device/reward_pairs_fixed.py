# target: script
"""Pairwise reward model on toy prompt/answer token sequences."""
import argparse

import torch
from torch import nn
from torch.nn.functional import logsigmoid
from torch.utils.data import DataLoader, Dataset


class PreferencePairs(Dataset):
    """Each item: a prompt and its two answers, the preferred one first."""

    def __init__(self, n, vocab, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.prompts = torch.randint(0, vocab, (n, 5), generator=g)
        left = torch.randint(0, vocab, (n, 8), generator=g)
        right = torch.randint(0, vocab, (n, 8), generator=g)
        swap = left.float().mean(1, keepdim=True) < right.float().mean(1, keepdim=True)
        self.good, self.bad = torch.where(swap, right, left), torch.where(swap, left, right)

    def __len__(self):
        return len(self.prompts)

    def __getitem__(self, i):
        return {"prompt": self.prompts[i], "answers": [self.good[i], self.bad[i]]}


def move(batch, device):
    """Moves every tensor in a (nested) batch to device."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return {key: move(value, device) for key, value in batch.items()}
    if isinstance(batch, list):
        return [move(item, device) for item in batch]
    return batch


class RewardModel(nn.Module):
    def __init__(self, vocab, dim=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.value = nn.Linear(dim, 1)

    def forward(self, prompt, answer):
        tokens = torch.cat((prompt, answer), dim=1)
        states, _ = self.rnn(self.emb(tokens))
        return self.value(states[:, -1]).squeeze(-1)


def preference_loss(model, batch):
    good, bad = batch["answers"]
    margin = model(batch["prompt"], good) - model(batch["prompt"], bad)
    return -logsigmoid(margin).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--vocab", type=int, default=30)
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(PreferencePairs(256, args.vocab), batch_size=32, shuffle=True)
    model = RewardModel(args.vocab).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(args.epochs):
        total = torch.zeros((), device=device)
        for batch in loader:
            loss = preference_loss(model, move(batch, device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        print(f"epoch {epoch}: {total.item() / len(loader):.4f}")


if __name__ == "__main__":
    main()
