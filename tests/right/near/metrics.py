"""Helpers whose NaN or infinity is an answer, called alone."""
import math
import torch
from torch import nn
import torch.nn.functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"


def per_class_iou(hist):
    return hist.diag() / (hist.sum(0) + hist.sum(1) - hist.diag())


def causal_mask(t):
    return torch.full((t, t), -math.inf, device=device).triu_(1)


def alibi(t):
    m = torch.zeros(t, t, device=device)
    m.masked_fill_(torch.ones(t, t, dtype=torch.bool, device=device).triu(1), float("-inf"))
    return m + torch.arange(t, device=device) * 0.1


def top_k(logits, k=2):
    values, index = logits.topk(k)
    return torch.full_like(logits, float("-inf")).scatter(-1, index, values)


def top_p(logits, p=0.9):
    s, i = logits.sort(descending=True)
    drop = s.softmax(-1).cumsum(-1) - s.softmax(-1) > p
    s[drop] = -torch.inf
    return torch.empty_like(s).scatter_(-1, i, s)


def log_mask(mask):
    return mask.float().log()


def log_alpha(p):
    return torch.log(p)


def repetition_penalty(logits, ids, penalty=1.2):
    score = logits.gather(1, ids)
    score = torch.where(score < 0, score * penalty, score / penalty)
    return logits.scatter(1, ids, score)


def ban(logits, words):
    logits = logits.clone()
    logits[:, words] = -float("inf")
    return logits


def min_length(logits, eos, step, least):
    if step < least:
        logits[..., eos] = -torch.inf
    return logits.log_softmax(-1)


def beam(logp, beams, scores):
    vocab = logp.size(-1)
    total = scores[:, None] + logp
    best, flat = total.view(-1).topk(beams)
    return best, flat // vocab, flat % vocab


def psnr(a, b):
    mse = F.mse_loss(a, b)
    return 10 * torch.log10(1 / mse)


def auc(x):
    return torch.trapezoid(x) / x.numel()


def r2(pred, y):
    return 1 - ((y - pred) ** 2).sum() / ((y - y.mean()) ** 2).sum()


@torch.no_grad()
def main():
    hist = torch.tensor([[3.0, 1, 0], [0, 2, 0], [0, 0, 0]], device=device)
    iou = per_class_iou(hist)
    print(torch.nanmean(iou).item())
    x = torch.randn(2, 5, device=device)
    print(causal_mask(4).softmax(-1), alibi(4).softmax(-1), top_k(x).softmax(-1), top_p(x).softmax(-1))
    print((x + log_mask(torch.tensor([1, 0, 1, 1, 0], device=device))).argmax(-1))
    print(log_alpha(torch.tensor([0.0, 1.0], device=device)).exp())
    print(repetition_penalty(x, torch.tensor([[0, 1], [2, 3]], device=device)))
    print(ban(x, [1, 2]).softmax(-1), min_length(x.clone(), 0, 1, 3).exp())
    scores = torch.tensor([0.0, -math.inf], device=device)
    b = beam(x.log_softmax(-1), 3, scores)
    print(b[0].isinf().any(), psnr(x, x), auc(x), r2(x, x.clone()))


if __name__ == "__main__":
    main()
