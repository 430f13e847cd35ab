"""Binary weights by a straight-through estimator whose gradient is cut outside of [-1, 1]."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class BinarizeSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, w):
        ctx.save_for_backward(w)
        return torch.where(w >= 0, 1.0, -1.0).to(w.dtype)

    @staticmethod
    def backward(ctx, grad):
        (w,) = ctx.saved_tensors
        return grad * (w.abs() <= 1)


binarize = BinarizeSTE.apply


class BinaryLinear(nn.Linear):
    def forward(self, x):
        scale = self.weight.detach().abs().mean(dim=1)
        return F.linear(x, binarize(self.weight)) * scale + self.bias


@torch.no_grad()
def clip_weights(model):
    for m in model.modules():
        if isinstance(m, BinaryLinear):
            m.weight.clamp_(-1, 1)


def sample(n, teacher):
    x = torch.randn(n, teacher.size(1), device=teacher.device)
    return x, (x @ teacher.T).argmax(dim=1)


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    teacher = torch.randn(3, 10, device=device).sign()
    model = nn.Sequential(BinaryLinear(10, 48), nn.BatchNorm1d(48), nn.Hardtanh(), BinaryLinear(48, 3)).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for it in range(100):
        x, y = sample(64, teacher)
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        clip_weights(model)
        if it % 25 == 0:
            print(f"{it}: {loss.item():.3f}")
    values = binarize(model[0].weight.detach()).unique().tolist()
    model.eval()
    with torch.no_grad():
        x, y = sample(300, teacher)
        accuracy = (model(x).argmax(1) == y).float().mean().item()
    print("weights take the values", values, "accuracy", round(accuracy, 3))
