"""SAM and Lookahead: optimizers that wrap optimizers; gradients kept or cleared by their own rules."""
import torch
from torch import nn
import torch.nn.functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"


class SAM(torch.optim.Optimizer):
    def __init__(self, params, base, rho=0.05, **kw):
        super().__init__(params, dict(rho=rho, **kw))
        self.base = base(self.param_groups, **kw)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def first_step(self, zero_grad=False):
        norm = torch.stack([p.grad.norm() for g in self.param_groups for p in g["params"] if p.grad is not None]).norm()
        for g in self.param_groups:
            scale = g["rho"] / (norm + 1e-12)
            for p in g["params"]:
                if p.grad is None:
                    continue
                self.state[p]["old"] = p.data.clone()
                p.add_(p.grad * scale)
        if zero_grad:
            self.zero_grad()

    @torch.no_grad()
    def second_step(self, zero_grad=False):
        for g in self.param_groups:
            for p in g["params"]:
                if p.grad is not None:
                    p.data = self.state[p]["old"]
        self.base.step()
        if zero_grad:
            self.zero_grad()


class Lookahead:
    def __init__(self, opt, k=3, alpha=0.5):
        self.opt, self.k, self.alpha, self.n = opt, k, alpha, 0
        self.slow = [[p.detach().clone() for p in g["params"]] for g in opt.param_groups]

    def zero_grad(self):
        self.opt.zero_grad()

    def step(self):
        self.opt.step()
        self.n += 1
        if self.n % self.k == 0:
            with torch.no_grad():
                for g, slow in zip(self.opt.param_groups, self.slow):
                    for p, s in zip(g["params"], slow):
                        s.add_(p - s, alpha=self.alpha)
                        p.copy_(s)


def main():
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)).to(device)
    opt = SAM(net.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
    for _ in range(5):
        x, y = torch.randn(8, 6, device=device), torch.randint(3, (8,), device=device)
        F.cross_entropy(net(x), y).backward()
        opt.first_step(zero_grad=True)
        F.cross_entropy(net(x), y).backward()
        opt.second_step(zero_grad=True)
    look = Lookahead(torch.optim.Adam(net.parameters(), 1e-3))
    for _ in range(5):
        x, y = torch.randn(8, 6, device=device), torch.randint(3, (8,), device=device)
        look.zero_grad()
        F.cross_entropy(net(x), y).backward()
        look.step()


def adversarial():
    """PGD: gradients of the input, the model's are cleared before its own step."""
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(4):
        x, y = torch.randn(8, 6, device=device), torch.randint(3, (8,), device=device)
        delta = torch.zeros_like(x, requires_grad=True)
        for _ in range(3):
            loss = F.cross_entropy(net(x + delta), y)
            loss.backward()
            delta.data = (delta + 0.01 * delta.grad.detach().sign()).clamp(-0.1, 0.1)
            delta.grad.zero_()
        opt.zero_grad()
        F.cross_entropy(net(x + delta.detach()), y).backward()
        opt.step()


def fgsm_eval():
    net = nn.Linear(6, 3).to(device).eval()
    correct = 0
    for _ in range(3):
        x, y = torch.randn(8, 6, device=device, requires_grad=True), torch.randint(3, (8,), device=device)
        out = net(x)
        net.zero_grad()
        F.cross_entropy(out, y).backward()
        adv = x + 0.1 * x.grad.sign()
        with torch.no_grad():
            correct += (net(adv).argmax(1) == y).sum().item()
    return correct


def langevin():
    """Sampling with gradients of the input; no optimizer."""
    energy = nn.Sequential(nn.Linear(2, 16), nn.SiLU(), nn.Linear(16, 1)).to(device)
    x = torch.randn(8, 2, device=device)
    for _ in range(5):
        x.requires_grad_(True)
        g, = torch.autograd.grad(energy(x).sum(), x)
        x = x.detach() - 0.1 * g + 0.01 * torch.randn_like(x)
    return x


def style():
    """Optimize an image, not a model; the network is frozen and in eval mode."""
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).to(device).eval()
    for p in net.parameters():
        p.requires_grad_(False)
    goal = net(torch.rand(1, 3, 8, 8, device=device))
    image = torch.rand(1, 3, 8, 8, device=device, requires_grad=True)
    opt = torch.optim.LBFGS([image], max_iter=4)
    for _ in range(3):
        def closure():
            with torch.no_grad():
                image.clamp_(0, 1)
            opt.zero_grad()
            loss = F.mse_loss(net(image), goal)
            loss.backward()
            return loss
        opt.step(closure)
    with torch.no_grad():
        image.clamp_(0, 1)


if __name__ == "__main__":
    main()
    adversarial()
    fgsm_eval()
    langevin()
    style()
