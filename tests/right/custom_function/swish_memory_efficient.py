"""A Swish that saves only its input and recomputes in backward; checked with gradcheck and gradgradcheck."""
import torch
from torch import nn
from torch.autograd import Function, gradcheck, gradgradcheck


class SwishFn(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, grad_out):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad_out * (s + x * s * (1 - s))


class Swish(nn.Module):
    def forward(self, x):
        return SwishFn.apply(x)


def check():
    x = torch.randn(7, dtype=torch.double, requires_grad=True)
    assert gradcheck(SwishFn.apply, (x,))
    assert gradgradcheck(SwishFn.apply, (x,))
    torch.testing.assert_close(SwishFn.apply(x), nn.functional.silu(x))


def main():
    check()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = nn.Sequential(nn.Linear(3, 32), Swish(), nn.Linear(32, 1)).to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for step in range(80):
        x = torch.rand(64, 3, device=device)
        y = x.prod(dim=1, keepdim=True)
        loss = nn.functional.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0:
            print(f"step {step}: {loss.item():.5f}")


if __name__ == "__main__":
    main()
