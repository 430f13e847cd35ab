# source: https://github.com/meta-pytorch/opacus/issues/432
# target: script
# truth: the batch norms are replaced by group norms after the optimizer took the parameters, so scale and shift of the
#   new layers are in no parameter group and never change
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class ConvNet(nn.Module):
    def __init__(self, width=8, num_classes=4):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.AvgPool2d(2))
        self.body = nn.Sequential(nn.Conv2d(width, width * 2, 3, padding=1), nn.BatchNorm2d(width * 2), nn.ReLU())
        self.fc = nn.Linear(width * 2, num_classes)

    def forward(self, x):
        return self.fc(self.body(self.stem(x)).mean(dim=(2, 3)))


def _batchnorm_to_groupnorm(module):
    return nn.GroupNorm(min(4, module.num_features), module.num_features, affine=module.affine)


def fix_module(module):
    """Replaces the layers that mix samples of a batch, which private training does not allow."""
    if isinstance(module, nn.modules.batchnorm._BatchNorm):
        return _batchnorm_to_groupnorm(module)
    for name, child in list(module.named_children()):
        fixed = fix_module(child)
        if fixed is not child:
            setattr(module, name, fixed)
    return module


def validate(module):
    return [n for n, m in module.named_modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]


def private_gradients(model, images, targets, max_grad_norm, noise_multiplier):
    """Clipped and noised sum of the per-sample gradients, written into .grad."""
    params = [p for p in model.parameters() if p.requires_grad]
    summed = [torch.zeros_like(p) for p in params]
    total = 0.0
    for x, y in zip(images, targets):
        loss = F.cross_entropy(model(x.unsqueeze(0)), y.unsqueeze(0))
        grads = torch.autograd.grad(loss, params)
        norm = torch.stack([g.norm() for g in grads]).norm()
        factor = (max_grad_norm / (norm + 1e-6)).clamp(max=1.0)
        for s, g in zip(summed, grads):
            s.add_(g * factor)
        total += loss.detach()
    for p, s in zip(params, summed):
        noise = torch.randn_like(p) * noise_multiplier * max_grad_norm
        p.grad = (s + noise) / len(images)
    return total / len(images)


def train(args, model, loader, optimizer, epoch):
    model.train()
    losses = []
    for images, targets in loader:
        optimizer.zero_grad()
        losses.append(private_gradients(model, images, targets, args.max_per_sample_grad_norm, args.sigma))
        optimizer.step()
    print(f"Train epoch {epoch} loss {torch.stack(losses).mean().item():.4f}")


def main():
    parser = argparse.ArgumentParser(description="Private training on small images")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--sigma", type=float, default=0.1)
    parser.add_argument("--max-per-sample-grad-norm", type=float, default=1.0)
    args = parser.parse_args([])

    torch.manual_seed(0)
    data = TensorDataset(torch.randn(12, 3, 8, 8), torch.randint(0, 4, (12,)))
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True)
    model = ConvNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    if validate(model):
        model = fix_module(model)  # culprit
    for epoch in range(args.epochs):
        train(args, model, loader, optimizer, epoch)
    print("norm scale moved by", (model.stem[1].weight - 1).abs().max().item())


if __name__ == "__main__":
    main()
