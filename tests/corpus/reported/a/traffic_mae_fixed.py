# source: https://github.com/GestaltCogTeam/BasicTS/issues/202
import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn


class MaskGenerator(nn.Module):
    def __init__(self, num_tokens, mask_ratio):
        super().__init__()
        self.num_tokens = num_tokens
        self.len_keep = int(num_tokens * (1 - mask_ratio))

    def forward(self, patches):
        noise = torch.rand(patches.size(0), self.num_tokens, device=patches.device)
        order = noise.argsort(dim=1)
        restore = order.argsort(dim=1)
        return order[:, : self.len_keep], order[:, self.len_keep :], restore


class PatchEmbedding(nn.Module):
    def __init__(self, patch_size, dim):
        super().__init__()
        self.conv = nn.Conv1d(1, dim, kernel_size=patch_size, stride=patch_size)

    def forward(self, series):
        return self.conv(series.unsqueeze(1)).transpose(1, 2)


class SinePositions(nn.Module):
    def __init__(self, dim, max_len=512):
        super().__init__()
        pos = torch.arange(max_len).unsqueeze(1)
        div = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
        table = torch.zeros(max_len, dim)
        table[:, 0::2] = torch.sin(pos * div)
        table[:, 1::2] = torch.cos(pos * div)
        self.register_buffer("table", table)

    def forward(self, tokens):
        return tokens + self.table[: tokens.size(1)]


def take(tokens, index):
    return tokens.gather(1, index.unsqueeze(-1).expand(-1, -1, tokens.size(-1)))


class SeriesMAE(nn.Module):
    def __init__(self, seq_len, patch_size=12, dim=48, mask_ratio=0.75):
        super().__init__()
        num_tokens = seq_len // patch_size
        self.patch_size = patch_size
        self.embed = PatchEmbedding(patch_size, dim)
        self.positions = SinePositions(dim)
        self.masker = MaskGenerator(num_tokens, mask_ratio)
        layer = nn.TransformerEncoderLayer(dim, 4, dim * 2, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.decoder = nn.TransformerEncoderLayer(dim, 4, dim * 2, dropout=0.1, batch_first=True)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, dim))
        nn.init.trunc_normal_(self.mask_token, std=0.02)
        self.head = nn.Linear(dim, patch_size)

    def forward(self, series):
        tokens = self.positions(self.embed(series))
        kept, masked, restore = self.masker(tokens)
        hidden = self.encoder(take(tokens, kept))
        filler = self.mask_token.expand(hidden.size(0), masked.size(1), -1)
        full = take(torch.cat([hidden, filler], dim=1), restore)
        recon = self.head(self.decoder(self.positions(full)))
        target = series.unfold(1, self.patch_size, self.patch_size)
        return take(recon, masked), take(target, masked)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=12)
    ap.add_argument("--seq-len", type=int, default=288)
    args = ap.parse_args()
    torch.manual_seed(7)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = SeriesMAE(args.seq_len).to(device)
    optim = torch.optim.AdamW(model.parameters(), lr=1e-3)
    t = torch.arange(args.seq_len, device=device) / 288 * 2 * math.pi
    for step in range(args.steps):
        phase = torch.rand(16, 1, device=device) * 2 * math.pi
        batch = torch.sin(t + phase) + 0.1 * torch.randn(16, args.seq_len, device=device)
        recon, target = model(batch)
        loss = F.l1_loss(recon, target)
        optim.zero_grad()
        loss.backward()
        optim.step()
        if step % 4 == 0:
            print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
