# target: DepthModule.validate
# truth: Validation runs without no_grad and keeps the predictions of all batches, each with its whole graph and activations: memory
#   grows with every batch and the GPU runs out of memory during validation although training fits.
"""Monocular depth estimation with a tiny U-Net."""
import torch
from torch import nn
from torch.nn import functional as F


def conv_block(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1), nn.GroupNorm(4, cout), nn.SiLU(),
        nn.Conv2d(cout, cout, 3, padding=1), nn.GroupNorm(4, cout), nn.SiLU(),
    )


class TinyUNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.enc1 = conv_block(3, width)
        self.enc2 = conv_block(width, width * 2)
        self.dec1 = conv_block(width * 3, width)
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        e1 = self.enc1(x)
        e2 = self.enc2(F.max_pool2d(e1, 2))
        up = F.interpolate(e2, scale_factor=2, mode="bilinear", align_corners=False)
        return F.softplus(self.out(self.dec1(torch.cat([up, e1], dim=1))))


class DepthModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = TinyUNet()

    def training_step(self, batch, optimizer):
        image, depth = batch
        self.train()
        loss = F.l1_loss(self.net(image).log1p(), depth.log1p())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.item()

    def validate(self, loader):  # error: DG506|DG501
        """Absolute relative error and delta < 1.25 over the whole validation set."""
        self.eval()
        preds, targets = [], []
        for image, depth in loader:
            preds.append(self.net(image))
            targets.append(depth)
        pred, target = torch.cat(preds), torch.cat(targets)
        # scale alignment by the medians, per image
        scale = target.flatten(1).median(1).values / pred.flatten(1).median(1).values
        pred = pred * scale[:, None, None, None]
        ratio = torch.maximum(pred / target, target / pred)
        return {
            "abs_rel": ((pred - target).abs() / target).mean().item(),
            "delta1": (ratio < 1.25).float().mean().item(),
        }
