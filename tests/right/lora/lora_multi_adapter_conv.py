"""Several named LoRA adapters on a convolution, one active at a time, trained for different tasks."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class LoRAConv2d(nn.Module):
    def __init__(self, base: nn.Conv2d, rank: int, names):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down, self.up = nn.ModuleDict(), nn.ModuleDict()
        for name in names:
            self.down[name] = nn.Conv2d(base.in_channels, rank, base.kernel_size, base.stride, base.padding, bias=False)
            self.up[name] = nn.Conv2d(rank, base.out_channels, 1, bias=False)
            nn.init.zeros_(self.up[name].weight)
        self.active = None

    def forward(self, x):
        y = self.base(x)
        if self.active is not None:
            y = y + self.up[self.active](self.down[self.active](x))
        return y


class Net(nn.Module):
    def __init__(self, tasks):
        super().__init__()
        self.conv = LoRAConv2d(nn.Conv2d(1, 8, 3, padding=1), 2, tasks)
        self.heads = nn.ModuleDict({t: nn.Linear(8, 2) for t in tasks})

    def use(self, task):
        self.conv.active = task
        return self

    def task_parameters(self, task):
        yield from self.conv.down[task].parameters()
        yield from self.conv.up[task].parameters()
        yield from self.heads[task].parameters()

    def forward(self, x):
        h = F.relu(self.conv(x)).amax(dim=(2, 3))
        return self.heads[self.conv.active](h)


def bars(n, direction, device):
    y = torch.randint(2, (n,), device=device)
    x = 0.3 * torch.randn(n, 1, 8, 8, device=device)
    stripe = torch.zeros(8, 8, device=device)
    stripe[3] = 2.0
    x[y == 1] += stripe if direction == "rows" else stripe.T
    return x, y


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    tasks = ["rows", "columns"]
    net = Net(tasks).to(device)
    for task in tasks:
        net.use(task).train()
        opt = torch.optim.Adam(net.task_parameters(task), lr=2e-2)
        for _ in range(40):
            x, y = bars(32, task, device)
            loss = F.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"task {task}: last loss {loss.item():.3f}")
    net.eval()
    with torch.no_grad():
        for task in tasks:
            x, y = bars(100, task, device)
            print(f"task {task}: accuracy {(net.use(task)(x).argmax(1) == y).float().mean().item():.2f}")


if __name__ == "__main__":
    main()
