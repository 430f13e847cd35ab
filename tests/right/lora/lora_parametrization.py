"""LoRA as a parametrization of the weight, switched off by a context manager."""
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.utils import parametrize

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class LowRankDelta(nn.Module):
    def __init__(self, out_features, in_features, rank, alpha):
        super().__init__()
        self.a = nn.Parameter(torch.randn(rank, in_features) * 0.02)
        self.b = nn.Parameter(torch.zeros(out_features, rank))
        self.scale = alpha / rank
        self.enabled = True

    def forward(self, w):
        return w + self.scale * (self.b @ self.a) if self.enabled else w


def add_lora(layer, rank=2, alpha=4.0):
    delta = LowRankDelta(layer.out_features, layer.in_features, rank, alpha).to(layer.weight.device)
    parametrize.register_parametrization(layer, "weight", delta)
    layer.parametrizations.weight.original.requires_grad_(False)
    return delta


@contextmanager
def lora_disabled(deltas):
    for d in deltas:
        d.enabled = False
    try:
        yield
    finally:
        for d in deltas:
            d.enabled = True


net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3)).to(device)
net.requires_grad_(False)
deltas = [add_lora(layer) for layer in net if isinstance(layer, nn.Linear)]
params = [p for p in net.parameters() if p.requires_grad]
assert len(params) == 4

probe = torch.randn(10, 6, device=device)
with torch.no_grad():
    original = net(probe)

opt = torch.optim.Adam(params, lr=2e-2)
for step in range(80):
    x = torch.randn(64, 6, device=device)
    loss = nn.functional.cross_entropy(net(x), x[:, 3:].argmax(dim=1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(f"step {step}: {loss.item():.3f}")

with torch.no_grad():
    adapted = net(probe)
    with lora_disabled(deltas):
        torch.testing.assert_close(net(probe), original)
    for layer in net:
        if parametrize.is_parametrized(layer):
            parametrize.remove_parametrizations(layer, "weight", leave_parametrized=True)
    torch.testing.assert_close(net(probe), adapted)
print("adapter off equals the original, adapter merged equals the adapted")
