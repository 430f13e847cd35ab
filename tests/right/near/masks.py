"""Infinity by intention: masks, beams, running maxima, forbidden transitions."""

import math
import torch
from torch import nn
import torch.nn.functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"


def attention_nan_to_num(q, k, v, mask):
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
    scores = scores.masked_fill(~mask, float("-inf"))
    weights = torch.nan_to_num(scores.softmax(-1))
    return weights @ v


def fully_masked():
    torch.manual_seed(0)
    q = torch.randn(2, 3, 4, device=device)
    mask = torch.ones(2, 3, 3, dtype=torch.bool, device=device)
    mask[0, 1] = False
    with torch.no_grad():
        return attention_nan_to_num(q, q, q, mask)


def causal(x):
    t = x.size(1)
    bias = torch.full((t, t), float("-inf"), device=x.device).triu(1)
    return F.softmax(x @ x.transpose(1, 2) + bias, dim=-1) @ x


def masked_argmax(logits, allowed):
    logits = logits + allowed.log()
    return logits.argmax(-1)


def log_of_where(p):
    safe = torch.where(p > 0, p, torch.ones_like(p))
    return torch.where(p > 0, p * safe.log(), torch.zeros_like(p)).sum(-1)


def beam_scores(logits, k=3):
    scores = torch.full((logits.size(0),), -math.inf, device=logits.device)
    scores[0] = 0.0
    total = scores[:, None] + logits.log_softmax(-1)
    return total.view(-1).topk(k)


def top_p_sample(logits, p=0.9):
    sorted_logits, idx = logits.sort(descending=True)
    cum = sorted_logits.softmax(-1).cumsum(-1)
    remove = cum > p
    remove[..., 1:] = remove[..., :-1].clone()
    remove[..., 0] = False
    sorted_logits[remove] = -math.inf
    probs = torch.zeros_like(logits).scatter_(-1, idx, sorted_logits.softmax(-1))
    return torch.multinomial(probs, 1)


def running_max(xs):
    best = torch.full((4,), -float("inf"), device=device)
    for x in xs:
        torch.maximum(best, x, out=best)
    return best


def streaming_logsumexp(xs):
    total = torch.full((4,), float("-inf"), device=device)
    for x in xs:
        total = torch.logaddexp(total, x)
    return total


def viterbi(emissions, transitions):
    score = emissions[0]
    back = []
    for e in emissions[1:]:
        best, arg = (score[:, None] + transitions).max(0)
        score = best + e
        back.append(arg)
    path = [score.argmax().item()]
    for arg in reversed(back):
        path.append(arg[path[-1]].item())
    return path[::-1]


def main():
    print(fully_masked().shape)
    x = torch.randn(2, 5, 8, device=device, requires_grad=True)
    causal(x).mean().backward()
    print(masked_argmax(torch.randn(2, 4, device=device), torch.tensor([[1., 0, 1, 0], [1, 1, 0, 0]], device=device)))
    p = torch.tensor([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0]], device=device, requires_grad=True)
    log_of_where(p).sum().backward()
    print(beam_scores(torch.randn(4, 7, device=device)))
    print(top_p_sample(torch.randn(2, 9, device=device)))
    print(running_max([torch.randn(4, device=device) for _ in range(5)]))
    print(streaming_logsumexp([torch.randn(4, device=device) for _ in range(5)]))
    tr = torch.zeros(3, 3, device=device)
    tr[0, 2] = -math.inf
    print(viterbi(torch.randn(4, 3, device=device), tr))


main()
