# target: script
# truth: 1e-8 is zero in float16, in which the model runs: a row of zeros (padding) divides zero by zero and becomes
#   NaN.
"""Inference of a small decoder in half precision."""

import torch
import torch.nn as nn


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        x = x.half()
        rms = x.pow(2).mean(dim=-1, keepdim=True).sqrt()
        return x / (rms + 1e-8) * self.scale.half()  # error: DG408|DG402|DG410


class Decoder(nn.Module):
    def __init__(self, words=64, width=32):
        super().__init__()
        self.embedding = nn.Embedding(words, width, padding_idx=0)
        self.norm = RMSNorm(width)
        self.out = nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        return self.out(self.norm(self.embedding(tokens)))


@torch.inference_mode()
def generate(model, tokens, steps=4):
    for _ in range(steps):
        logits = model(tokens)[:, -1]
        tokens = torch.cat([tokens, logits.argmax(dim=-1, keepdim=True)], dim=1)
    return tokens


@torch.inference_mode()
def perplexity(model, tokens):
    logits = model(tokens[:, :-1]).float()
    return nn.functional.cross_entropy(logits.transpose(1, 2), tokens[:, 1:]).exp().item()


def main():
    torch.manual_seed(0)
    model = Decoder().half().eval()
    tokens = torch.randint(1, 64, (2, 6))
    tokens[1, :3] = 0
    print(perplexity(model, tokens), generate(model, tokens).shape)


if __name__ == "__main__":
    main()
