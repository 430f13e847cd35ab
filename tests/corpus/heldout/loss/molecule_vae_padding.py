# target: script
# source: https://github.com/DaoyuanLi2816/Molecule-Generator/pull/20
# truth: the reconstruction loss averages over all positions and most are <pad>; the reported loss and the gradient are dominated by
#   predicting padding, it looks excellent early while the real characters are still poorly reconstructed. Silent.
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

random.seed(0)
torch.manual_seed(0)

ALPHABET = ["<pad>", "<bos>", "<eos>"] + list("CNOcn1()=")
PAD, BOS, EOS = 0, 1, 2
MAX_LEN = 40


def random_smiles():
    n = random.randint(3, 9)
    s = "".join(random.choice(["C", "C", "N", "O", "=O", "(C)", "c1ccn1"[:2]]) for _ in range(n))
    return s[:12]


def encode(s):
    ids = [BOS] + [ALPHABET.index(c) for c in s] + [EOS]
    return ids + [PAD] * (MAX_LEN - len(ids))


class SeqVAE(nn.Module):
    def __init__(self, vocab, emb=24, hid=64, lat=24):
        super().__init__()
        self.pad_idx = PAD
        self.emb = nn.Embedding(vocab, emb, padding_idx=PAD)
        self.enc = nn.GRU(emb, hid, batch_first=True)
        self.mu, self.lv = nn.Linear(hid, lat), nn.Linear(hid, lat)
        self.z2h = nn.Linear(lat, hid)
        self.dec = nn.GRU(emb, hid, batch_first=True)
        self.out = nn.Linear(hid, vocab)

    def forward(self, x):
        lengths = (x != PAD).sum(1)
        enc_out, _ = self.enc(self.emb(x))
        h = enc_out[torch.arange(len(x)), lengths - 1]
        mu, lv = self.mu(h), self.lv(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * lv)
        y, _ = self.dec(self.emb(x[:, :-1]), self.z2h(z).unsqueeze(0).contiguous())
        return self.out(y), mu, lv


def loss_function(logits, target, mu, lv, beta):
    rec = F.cross_entropy(logits.reshape(-1, logits.size(-1)), target.reshape(-1))  # error: DG319
    kld = -0.5 * torch.mean(torch.sum(1 + lv - mu.pow(2) - lv.exp(), dim=1))
    return rec + beta * kld, rec


def char_accuracy(logits, target):
    real = target != PAD
    return (logits.argmax(-1)[real] == target[real]).float().mean().item()


def train(model, data, epochs=5, batch_size=64, beta=1e-3):
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(epochs):
        tot = acc = n = 0
        for xb in data[torch.randperm(len(data))].split(batch_size):
            logits, mu, lv = model(xb)
            loss, rec = loss_function(logits, xb[:, 1:], mu, lv, beta)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            tot += rec.item()
            acc += char_accuracy(logits, xb[:, 1:])
            n += 1
        print(f"epoch {epoch + 1}  rec {tot / n:.4f}  char acc {acc / n:.3f}")


if __name__ == "__main__":
    molecules = torch.tensor([encode(random_smiles()) for _ in range(1024)])
    train(SeqVAE(len(ALPHABET)), molecules)
