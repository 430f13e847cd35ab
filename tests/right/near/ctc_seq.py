"""Sequence losses that hold infinity by intention; label masks; metrics with nan for what is absent."""
import torch
from torch import nn
import torch.nn.functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"


def crf_forward(emissions, transitions, mask):
    """The forward algorithm, with forbidden transitions."""
    alpha = emissions[:, 0]
    for t in range(1, emissions.size(1)):
        step = torch.logsumexp(alpha[:, :, None] + transitions[None] + emissions[:, t, None], 1)
        alpha = torch.where(mask[:, t, None], step, alpha)
    return torch.logsumexp(alpha, 1)


def per_class_accuracy(pred, target, classes):
    hit = torch.zeros(classes, device=pred.device).index_add_(0, target, (pred == target).float())
    count = torch.zeros(classes, device=pred.device).index_add_(0, target, torch.ones_like(hit[target]))
    return torch.nanmean(hit / count)


def iou_metric(pred, target, classes=4):
    k = target * classes + pred
    hist = torch.bincount(k, minlength=classes ** 2).view(classes, classes).float()
    inter = hist.diag()
    union = hist.sum(0) + hist.sum(1) - inter
    return (inter / union).nan_to_num(0.0).mean()


def masked_mean(x, mask):
    return (x * mask).sum() / mask.sum().clamp_min(1)


def perplexity(losses):
    mean = sum(losses) / len(losses)
    try:
        return torch.exp(torch.tensor(mean)).item()
    except OverflowError:
        return float("inf")


def main():
    emis = torch.randn(2, 5, 3, device=device, requires_grad=True)
    trans = torch.zeros(3, 3, device=device)
    trans[0, 2] = -1e4
    trans = trans.requires_grad_()
    mask = torch.ones(2, 5, dtype=torch.bool, device=device)
    mask[1, 3:] = False
    crf_forward(emis, trans, mask).sum().backward()
    log_probs = torch.randn(10, 2, 5, device=device, requires_grad=True)
    ctc = nn.CTCLoss(zero_infinity=True)
    ctc(log_probs.log_softmax(2), torch.randint(1, 5, (2, 4), device=device), torch.tensor([10, 3]), torch.tensor([4, 4])).backward()
    pred = torch.tensor([0, 1, 1, 3], device=device)
    target = torch.tensor([0, 1, 2, 2], device=device)
    print(per_class_accuracy(pred, target, 5).item(), iou_metric(pred, target).item())
    x = torch.randn(2, 5, device=device, requires_grad=True)
    masked_mean(x, mask).backward()
    print(perplexity([3.0, 2.5]))
    F.cross_entropy(torch.randn(4, 3, device=device, requires_grad=True), torch.tensor([0, -100, 2, -100], device=device)).backward()


main()
