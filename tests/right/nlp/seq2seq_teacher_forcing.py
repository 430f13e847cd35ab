"""A GRU encoder-decoder that reverses digit strings: scheduled teacher forcing and padding ignored by the loss."""
import random

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

PAD, BOS, EOS, OFFSET = 0, 1, 2, 3
VOCAB = OFFSET + 10
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def make_batch(n):
    sources, targets = [], []
    for _ in range(n):
        digits = [OFFSET + random.randrange(10) for _ in range(random.randint(2, 5))]
        sources.append(torch.tensor(digits))
        targets.append(torch.tensor(digits[::-1] + [EOS]))
    lengths = torch.tensor([len(s) for s in sources])
    src = pad_sequence(sources, batch_first=True, padding_value=PAD)
    tgt = pad_sequence(targets, batch_first=True, padding_value=PAD)
    return src.to(device), lengths, tgt.to(device)  # packing wants its lengths on the CPU


class Seq2Seq(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.encoder = nn.GRU(dim, dim, batch_first=True)
        self.decoder = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, VOCAB)

    def encode(self, src, lengths):
        packed = pack_padded_sequence(self.embed(src), lengths, batch_first=True, enforce_sorted=False)
        _, hidden = self.encoder(packed)
        return hidden

    def forward(self, src, lengths, tgt, forcing=1.0):
        hidden = self.encode(src, lengths)
        token = torch.full((src.size(0), 1), BOS, dtype=torch.long, device=src.device)
        logits = []
        for t in range(tgt.size(1)):
            y, hidden = self.decoder(self.embed(token), hidden)
            step = self.out(y)
            logits.append(step)
            use_truth = random.random() < forcing
            token = tgt[:, t : t + 1] if use_truth else step.argmax(-1)
        return torch.cat(logits, dim=1)

    @torch.no_grad()
    def greedy(self, src, lengths, max_len):
        hidden = self.encode(src, lengths)
        token = torch.full((src.size(0), 1), BOS, dtype=torch.long, device=src.device)
        produced = []
        for _ in range(max_len):
            y, hidden = self.decoder(self.embed(token), hidden)
            token = self.out(y).argmax(-1)
            produced.append(token)
        return torch.cat(produced, dim=1)


def main():
    random.seed(0)
    torch.manual_seed(0)
    model = Seq2Seq().to(device)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    steps = 120
    for step in range(steps):
        src, lengths, tgt = make_batch(32)
        logits = model(src, lengths, tgt, forcing=1.0 - 0.5 * step / steps)
        loss = criterion(logits.transpose(1, 2), tgt)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 40 == 0:
            print(f"step {step}: loss {loss.item():.3f}")
    model.eval()
    src, lengths, tgt = make_batch(64)
    mask = tgt != PAD
    predicted = model.greedy(src, lengths, tgt.size(1))
    print(f"token accuracy {(predicted == tgt)[mask].float().mean().item():.2f}")


if __name__ == "__main__":
    main()
