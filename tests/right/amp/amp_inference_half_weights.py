"""Train in float32, convert a copy to bfloat16 for inference and bound the difference."""
import copy

import torch
from torch import nn


def build():
    return nn.Sequential(nn.Linear(12, 48), nn.LayerNorm(48), nn.GELU(), nn.Linear(48, 3))


def fit(model, device, steps=60):
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    ce = nn.CrossEntropyLoss()
    model.train()
    for _ in range(steps):
        x = torch.randn(64, 12, device=device)
        y = x[:, :3].argmax(1)
        opt.zero_grad()
        ce(model(x), y).backward()
        opt.step()
    return model.eval()


def parameter_bytes(model):
    return sum(p.numel() * p.element_size() for p in model.parameters())


@torch.inference_mode()
def predict(model, x):
    dtype = next(model.parameters()).dtype
    return torch.softmax(model(x.to(dtype)), dim=-1, dtype=torch.float32)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    full = fit(build().to(device), device)
    half = copy.deepcopy(full).to(torch.bfloat16)  # `.to` on the original would convert it in place
    x = torch.randn(200, 12, device=device)
    p, q = predict(full, x), predict(half, x)
    gap = (p - q).abs().max().item()
    same = (p.argmax(1) == q.argmax(1)).float().mean().item()
    print(f"bytes {parameter_bytes(full)} -> {parameter_bytes(half)}, largest gap {gap:.4f}, same class {same:.3f}")
    assert gap < 0.1 and full[0].weight.dtype == torch.float32


if __name__ == "__main__":
    main()
