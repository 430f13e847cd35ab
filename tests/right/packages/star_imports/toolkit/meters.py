import torch

__all__ = ["AverageMeter", "accuracy"]


class AverageMeter:
    """Keeps a sum on the device; reading `avg` is what asks for it."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.sum, self.count = 0.0, 0

    def update(self, value, n=1):
        self.sum = self.sum + value.detach() * n
        self.count += n

    @property
    def avg(self):
        return float(self.sum) / max(1, self.count)


@torch.no_grad()
def accuracy(output, target, topk=(1,)):
    k = min(max(topk), output.size(1))
    hit = output.topk(k, dim=1).indices.eq(target.unsqueeze(1))
    return [hit[:, :j].any(dim=1).float().mean() for j in topk]
