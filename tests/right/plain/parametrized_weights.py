"""Weight norm, spectral norm and a hand-made symmetric parametrization in one network."""
import torch
from torch import nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import spectral_norm, weight_norm


class Symmetric(nn.Module):
    def forward(self, w):
        return w.triu() + w.triu(1).transpose(-1, -2)

    def right_inverse(self, w):
        return w.triu()


def build(dim):
    symmetric = nn.Linear(dim, dim, bias=False)
    parametrize.register_parametrization(symmetric, "weight", Symmetric())
    return nn.Sequential(
        weight_norm(nn.Linear(dim, dim)),
        nn.Tanh(),
        symmetric,
        nn.Tanh(),
        spectral_norm(nn.Linear(dim, 1)),
    )


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = build(8).to(device)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)

for i in range(100):
    x = torch.randn(32, 8, device=device)
    y = torch.sin(x.sum(dim=1, keepdim=True) / 3)
    opt.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    opt.step()
    if i % 25 == 0:
        print(f"{i:3d} {loss.item():.4f}")

net.eval()
with torch.no_grad():
    sym = net[2].weight
    assert torch.equal(sym, sym.T)
    sigma = torch.linalg.matrix_norm(net[4].weight, ord=2)
    print(f"largest singular value of the last layer {sigma.item():.3f}")

    probe = torch.randn(4, 8, device=device)
    before = net(probe)
    parametrize.remove_parametrizations(net[0], "weight")
    parametrize.remove_parametrizations(net[2], "weight")
    torch.testing.assert_close(net(probe), before)
print("parametrizations removed:", not parametrize.is_parametrized(net[0]), not parametrize.is_parametrized(net[2]))
