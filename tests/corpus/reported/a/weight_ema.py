# source: https://github.com/lucidrains/ema-pytorch/issues/8
# target: script
# truth: the buffer iterator walks named_parameters(), finds no buffer name there and yields nothing, so the averaged
#   model keeps the BatchNorm statistics of the start: its evaluation is far worse than that of the online model
import argparse
import copy

import torch
import torch.nn.functional as F
from torch import nn


class EMA(nn.Module):
    """Exponential moving average of a model.

    The average starts after ``update_after_step`` steps and is refreshed every ``update_every`` steps.
    """

    def __init__(self, model, beta=0.99, update_after_step=10, update_every=1, ignore_names=()):
        super().__init__()
        self.beta = beta
        self.update_after_step = update_after_step
        self.update_every = update_every
        self.ignore_names = set(ignore_names)
        self.online_model = [model]
        self.ema_model = copy.deepcopy(model).requires_grad_(False)
        self.parameter_names = {n for n, p in self.ema_model.named_parameters() if p.is_floating_point()}
        self.buffer_names = {n for n, b in self.ema_model.named_buffers() if b.is_floating_point()}
        self.register_buffer("step", torch.tensor(0))

    @property
    def model(self):
        return self.online_model[0]

    def get_params_iter(self, model):
        for name, param in model.named_parameters():
            if name in self.parameter_names:
                yield name, param

    def get_buffers_iter(self, model):
        for name, buffer in model.named_parameters():  # culprit
            if name in self.buffer_names:
                yield name, buffer

    @torch.no_grad()
    def copy_params(self):
        for (_, ma), (_, cur) in zip(self.get_params_iter(self.ema_model), self.get_params_iter(self.model)):
            ma.copy_(cur)
        for (_, ma), (_, cur) in zip(self.get_buffers_iter(self.ema_model), self.get_buffers_iter(self.model)):
            ma.copy_(cur)

    def update(self):
        step = int(self.step)
        self.step += 1
        if step % self.update_every != 0:
            return
        if step <= self.update_after_step:
            self.copy_params()
            return
        self.update_moving_average()

    @torch.no_grad()
    def update_moving_average(self):
        for (name, ma), (_, cur) in zip(self.get_params_iter(self.ema_model), self.get_params_iter(self.model)):
            if name not in self.ignore_names:
                ma.lerp_(cur, 1.0 - self.beta)
        for (name, ma), (_, cur) in zip(self.get_buffers_iter(self.ema_model), self.get_buffers_iter(self.model)):
            if name not in self.ignore_names:
                ma.lerp_(cur, 1.0 - self.beta)

    def forward(self, *args, **kwargs):
        return self.ema_model(*args, **kwargs)


def make_net(dim, classes):
    return nn.Sequential(
        nn.Linear(dim, 64),
        nn.BatchNorm1d(64),
        nn.ReLU(),
        nn.Linear(64, 64),
        nn.BatchNorm1d(64),
        nn.ReLU(),
        nn.Linear(64, classes),
    )


def sample_batch(n, centers):
    y = torch.randint(0, centers.size(0), (n,))
    return 3.0 + 4.0 * (centers[y] + 0.7 * torch.randn(n, centers.size(1))), y


@torch.no_grad()
def accuracy(net, centers):
    net.eval()
    x, y = sample_batch(1000, centers)
    return (net(x).argmax(1) == y).float().mean().item()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--beta", type=float, default=0.97)
    args = parser.parse_args()
    torch.manual_seed(0)
    centers = torch.randn(6, 12)
    net = make_net(12, 6)
    ema = EMA(net, beta=args.beta)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for _ in range(args.steps):
        net.train()
        x, y = sample_batch(64, centers)
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update()
    print(f"online {accuracy(net, centers):.3f} averaged {accuracy(ema, centers):.3f}")
