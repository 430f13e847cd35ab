"""LoRA by hand: a frozen linear layer with a low-rank update that can be merged into the weight."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, rank: int = 4, alpha: float = 8.0, dropout: float = 0.0):
        super().__init__()
        self.base = base
        self.base.requires_grad_(False)
        like = {"device": base.weight.device, "dtype": base.weight.dtype}
        self.lora_a = nn.Parameter(torch.empty(rank, base.in_features, **like))
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank, **like))
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))
        self.scaling = alpha / rank
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.base(x) + self.scaling * F.linear(F.linear(self.dropout(x), self.lora_a), self.lora_b)

    @torch.no_grad()
    def merge(self) -> nn.Linear:
        self.base.weight += self.scaling * self.lora_b @ self.lora_a
        return self.base


def inject(model: nn.Module, rank: int) -> nn.Module:
    for name, child in list(model.named_children()):
        if isinstance(child, nn.Linear):
            setattr(model, name, LoRALinear(child, rank))
        else:
            inject(child, rank)
    return model


def merge_all(model: nn.Module) -> nn.Module:
    for name, child in list(model.named_children()):
        if isinstance(child, LoRALinear):
            setattr(model, name, child.merge())
        else:
            merge_all(child)
    return model


def train(model, task, params, steps, device):
    opt = torch.optim.Adam(params, lr=1e-2)
    for _ in range(steps):
        x = torch.randn(64, 8, device=device)
        opt.zero_grad()
        loss = F.mse_loss(model(x), task(x))
        loss.backward()
        opt.step()
    return loss.item()


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1)).to(device)
    print(f"pretraining loss {train(model, lambda x: x[:, :1].sin(), model.parameters(), 100, device):.4f}")

    model = inject(model, rank=2)
    trainable = [p for p in model.parameters() if p.requires_grad]
    frozen = sum(p.numel() for p in model.parameters() if not p.requires_grad)
    print(f"trainable {sum(p.numel() for p in trainable)}, frozen {frozen}")
    print(f"adapted loss {train(model, lambda x: x[:, 1:2].sin(), trainable, 100, device):.4f}")

    model.eval()
    probe = torch.randn(5, 8, device=device)
    with torch.no_grad():
        before = model(probe)
        after = merge_all(model)(probe)
    torch.testing.assert_close(before, after, atol=1e-5, rtol=1e-4)


if __name__ == "__main__":
    main()
