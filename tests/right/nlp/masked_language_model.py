"""BERT-style masking (80/10/10), a loss on masked positions only, and a guard for a batch without any."""
import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, MASK, FIRST = 0, 1, 2
VOCAB = 20
IGNORE = -100


def mask_tokens(tokens, prob=0.15):
    labels = tokens.clone()
    candidates = tokens != PAD
    selected = (torch.rand(tokens.shape, device=tokens.device) < prob) & candidates
    labels[~selected] = IGNORE
    roll = torch.rand(tokens.shape, device=tokens.device)
    inputs = tokens.clone()
    inputs[selected & (roll < 0.8)] = MASK
    swap = selected & (roll >= 0.8) & (roll < 0.9)
    inputs = torch.where(swap, torch.randint_like(tokens, FIRST, VOCAB), inputs)
    return inputs, labels


class TinyBert(nn.Module):
    def __init__(self, dim=32, max_len=16):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.pos = nn.Parameter(torch.zeros(1, max_len, dim))
        layer = nn.TransformerEncoderLayer(dim, 2, 64, dropout=0.0, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.bias = nn.Parameter(torch.zeros(VOCAB))
        nn.init.normal_(self.pos, std=0.02)

    def forward(self, x):
        h = self.enc(self.tok(x) + self.pos[:, : x.size(1)], src_key_padding_mask=x == PAD)
        return F.linear(h, self.tok.weight, self.bias)


def mlm_loss(logits, labels):
    # A sum over a clamped count: a batch in which nothing was selected gives 0, not nan.
    total = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE, reduction="sum")
    return total / (labels != IGNORE).sum().clamp(min=1)


def counting_batch(n, length, device):
    start = torch.randint(0, VOCAB - FIRST, (n, 1), device=device)
    seq = FIRST + (start + torch.arange(length, device=device)) % (VOCAB - FIRST)
    lengths = torch.randint(length // 2, length + 1, (n, 1), device=device)
    return seq.masked_fill(torch.arange(length, device=device) >= lengths, PAD)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = TinyBert().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3)
    for step in range(80):
        inputs, labels = mask_tokens(counting_batch(32, 12, device))
        loss = mlm_loss(model(inputs), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0:
            print(f"step {step}: {loss.item():.3f}")
    nothing = mlm_loss(torch.zeros(1, 4, VOCAB), torch.full((1, 4), IGNORE))
    assert nothing.item() == 0.0


if __name__ == "__main__":
    main()
