# target: Trainer.step
"""Mixed-precision trainer of a tiny translation model."""

import torch
import torch.nn as nn


class Seq2Seq(nn.Module):
    def __init__(self, words=120, width=32):
        super().__init__()
        self.source = nn.Embedding(words, width)
        self.target = nn.Embedding(words, width)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.decoder = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, words)

    def forward(self, source, target):
        _, state = self.encoder(self.source(source))
        decoded, _ = self.decoder(self.target(target), state)
        return self.out(decoded)


class Trainer:
    def __init__(self, model, lr=3e-4, clip=1.0, device="cuda"):
        self.device = device
        self.model = model.to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.scaler = torch.amp.GradScaler(device)
        self.clip = clip

    def step(self, source, target):
        source, target = source.to(self.device), target.to(self.device)
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device, dtype=torch.float16):
            logits = self.model(source, target[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.detach()


def main():
    torch.manual_seed(0)
    trainer = Trainer(Seq2Seq())
    for _ in range(3):
        trainer.step(torch.randint(0, 120, (4, 9)), torch.randint(0, 120, (4, 8)))


if __name__ == "__main__":
    main()
