# source: https://github.com/PixArt-alpha/PixArt-alpha/pull/160
import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn


class LoraLinear(nn.Module):
    def __init__(self, base, rank=4, alpha=4.0):
        super().__init__()
        self.base = base
        self.lora_a = nn.Linear(base.in_features, rank, bias=False)
        self.lora_b = nn.Linear(rank, base.out_features, bias=False)
        nn.init.normal_(self.lora_a.weight, std=1 / rank)
        nn.init.zeros_(self.lora_b.weight)
        self.scaling = alpha / rank

    def forward(self, x):
        return self.base(x) + self.lora_b(self.lora_a(x)) * self.scaling


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_v = nn.Linear(dim, dim)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        h = self.norm(x)
        q, k, v = (m(h).unsqueeze(1) for m in (self.to_q, self.to_k, self.to_v))
        return x + self.to_out(F.scaled_dot_product_attention(q, k, v).squeeze(1))


class NoiseTransformer(nn.Module):
    def __init__(self, channels=4, dim=16, depth=2):
        super().__init__()
        self.proj_in = nn.Linear(channels + 1, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.proj_out = nn.Linear(dim, channels)

    def forward(self, latents, timesteps):
        t = timesteps.view(-1, 1, 1).expand(-1, latents.shape[1], 1)
        h = self.proj_in(torch.cat([latents, t], dim=-1))
        for block in self.blocks:
            h = block(h)
        return self.proj_out(h)


def add_adapter(model, rank, targets=("to_q", "to_k", "to_v")):
    model.requires_grad_(False)
    for block in model.blocks:
        for name in targets:
            setattr(block, name, LoraLinear(getattr(block, name), rank))
    for name, p in model.named_parameters():
        if "lora_" in name:
            p.requires_grad_(True)
    return model


def parse_args(argv=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, default=4)
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    parser.add_argument("--max_grad_norm", type=float, default=0.05)
    parser.add_argument("--max_train_steps", type=int, default=8)
    parser.add_argument("--snr_gamma", type=float, default=5.0)
    return parser.parse_args(argv)


def main(args):
    torch.manual_seed(0)
    transformer = add_adapter(NoiseTransformer(), args.rank)
    lora_layers = list(filter(lambda p: p.requires_grad, transformer.parameters()))
    optimizer = torch.optim.AdamW(lora_layers, lr=args.learning_rate, betas=(0.9, 0.999), weight_decay=1e-2)
    data = torch.randn(32, 6, 4)

    for step in range(args.max_train_steps):
        latents = data[torch.randint(len(data), (8,))]
        timesteps = torch.rand(8) * 0.98 + 0.01
        alpha = torch.cos(timesteps * math.pi / 2).view(-1, 1, 1)
        sigma = torch.sqrt(1 - alpha ** 2)
        noise = torch.randn_like(latents)
        model_pred = transformer(alpha * latents + sigma * noise, timesteps)
        snr = (alpha / sigma).pow(2).flatten()
        weight = torch.clamp(snr, max=args.snr_gamma) / snr
        loss = (F.mse_loss(model_pred, noise, reduction="none").mean(dim=(1, 2)) * weight).mean()
        loss.backward()
        params_to_clip = lora_layers
        grad_norm = nn.utils.clip_grad_norm_(params_to_clip, args.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step} step_loss {loss.item():.4f} grad_norm {float(grad_norm):.4f}")


if __name__ == "__main__":
    main(parse_args([]))
