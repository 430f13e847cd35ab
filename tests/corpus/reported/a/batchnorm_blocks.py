# source: https://github.com/pytorch/pytorch/issues/20275
# target: RunningBatchNorm2d.forward
# truth: the running statistics are updated from mean and var with their graph, so the buffers get a grad_fn and every
#   training step lengthens one graph over all earlier batches: memory grows with each iteration
import torch
from torch import nn


class RunningBatchNorm2d(nn.Module):
    """Batch norm written out, with the semantics of nn.BatchNorm2d and a choice of statistics groups."""

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, groups=1):
        super().__init__()
        if num_features % groups:
            raise ValueError("num_features must be divisible by groups")
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.groups = groups
        if affine:
            self.weight = nn.Parameter(torch.ones(num_features))
            self.bias = nn.Parameter(torch.zeros(num_features))
        else:
            self.register_parameter("weight", None)
            self.register_parameter("bias", None)
        self.register_buffer("running_mean", torch.zeros(groups, num_features // groups))
        self.register_buffer("running_var", torch.ones(groups, num_features // groups))
        self.register_buffer("num_batches_tracked", torch.tensor(0, dtype=torch.long))

    def _statistics(self, x):
        mean = x.mean(dim=(1, 3, 4))
        var = x.var(dim=(1, 3, 4), unbiased=False)
        return mean, var

    def _track(self, mean, var, n):
        self.num_batches_tracked += 1
        factor = self.momentum if self.momentum is not None else 1.0 / self.num_batches_tracked
        unbiased = var * n / max(n - 1, 1)
        self.running_mean = factor * mean + (1 - factor) * self.running_mean
        self.running_var = factor * unbiased + (1 - factor) * self.running_var

    def forward(self, x):
        b, c, h, w = x.shape
        if c != self.num_features:
            raise ValueError(f"expected {self.num_features} channels, got {c}")
        grouped = x.reshape(b, self.groups, c // self.groups, h, w).transpose(0, 1)
        if self.training:
            mean, var = self._statistics(grouped)
            self._track(mean, var, b * h * w)  # culprit
        else:
            mean, var = self.running_mean, self.running_var
        mean = mean[:, None, :, None, None]
        var = var[:, None, :, None, None]
        out = (grouped - mean) / torch.sqrt(var + self.eps)
        out = out.transpose(0, 1).reshape(b, c, h, w)
        if self.weight is not None:
            out = out * self.weight[:, None, None] + self.bias[:, None, None]
        return out


class ResidualUnit(nn.Module):
    def __init__(self, cin, cout, stride=1, norm=RunningBatchNorm2d):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.norm1 = norm(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.norm2 = norm(cout)
        self.skip = nn.Identity()
        if stride != 1 or cin != cout:
            self.skip = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), norm(cout))

    def forward(self, x):
        out = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(out)) + self.skip(x))


class SmallResNet(nn.Module):
    def __init__(self, in_channels=3, num_classes=10, widths=(16, 32, 64), norm=RunningBatchNorm2d):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(in_channels, widths[0], 3, 1, 1, bias=False), norm(widths[0]), nn.ReLU())
        units = []
        previous = widths[0]
        for i, width in enumerate(widths):
            units.append(ResidualUnit(previous, width, stride=1 if i == 0 else 2, norm=norm))
            previous = width
        self.units = nn.Sequential(*units)
        self.fc = nn.Linear(previous, num_classes)

    def forward(self, x):
        return self.fc(self.units(self.stem(x)).mean(dim=(2, 3)))
