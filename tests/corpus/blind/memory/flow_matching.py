# target: train_step
# truth: The output is stored as a plain attribute of ctx; the output's grad_fn owns ctx, so tensor and node form a
#   reference cycle that neither backward nor leaving scope frees: the activations of past steps pile up (over a hundred
#   steps' worth) until Python's cyclic collector happens to run, and memory grows to out of memory on a GPU.
"""Flow matching on point data with a custom bounded activation."""
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class SoftSquash(torch.autograd.Function):
    """y = x / sqrt(1 + x^2); the derivative is (1 - y^2)^(3/2), so only y is needed."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        y = x * torch.rsqrt(1.0 + x * x)
        ctx.y = y  # error: DG508|DG509
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_y: Tensor) -> Tensor:
        y = ctx.y
        return grad_y * (1.0 - y * y).clamp(min=0.0).pow(1.5)


def soft_squash(x: Tensor) -> Tensor:
    return SoftSquash.apply(x)


class FlowNet(nn.Module):
    """Velocity field v(x, t) on R^dim."""

    def __init__(self, dim: int, width: int = 128, depth: int = 3):
        super().__init__()
        sizes = [dim + 1] + [width] * depth
        self.hidden = nn.ModuleList([nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:])])
        self.out = nn.Linear(width, dim)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        h = torch.cat((x, t), dim=-1)
        for layer in self.hidden:
            h = soft_squash(layer(h))
        return self.out(h)


def flow_loss(model: FlowNet, data: Tensor) -> Tensor:
    """Straight-line conditional flow matching from a standard normal to data."""
    noise = torch.randn_like(data)
    t = torch.rand(data.size(0), 1, device=data.device)
    point = (1.0 - t) * noise + t * data
    return (model(point, t) - (data - noise)).pow(2).mean()


def train_step(model: FlowNet, optimizer: torch.optim.Optimizer, data: Tensor) -> Tensor:
    """data: (batch, dim). Returns the detached loss."""
    model.train()
    loss = flow_loss(model, data)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


@torch.no_grad()
def sample(model: FlowNet, n: int, dim: int, steps: int = 50) -> Tensor:
    """Euler integration of the learned field from noise to data."""
    model.eval()
    device = next(model.parameters()).device
    x = torch.randn(n, dim, device=device)
    for k in range(steps):
        t = torch.full((n, 1), k / steps, device=device)
        x = x + model(x, t) / steps
    return x
