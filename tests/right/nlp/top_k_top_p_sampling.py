"""Temperature, top-k and nucleus filtering of logits, and sampling from what is left."""
import torch
from torch import Tensor


def top_k_filter(logits: Tensor, k: int) -> Tensor:
    k = min(k, logits.size(-1))
    threshold = logits.topk(k, dim=-1).values[..., -1:]
    return logits.masked_fill(logits < threshold, float("-inf"))


def top_p_filter(logits: Tensor, p: float) -> Tensor:
    ordered, order = logits.sort(dim=-1, descending=True)
    probs = ordered.softmax(dim=-1)
    # mass before a token; the first token always stays, so no row is fully masked
    before = probs.cumsum(dim=-1) - probs
    drop = before >= p
    drop[..., 0] = False
    drop = torch.zeros_like(drop).scatter_(-1, order, drop)
    return logits.masked_fill(drop, float("-inf"))


def repetition_penalty(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    chosen = logits.gather(-1, seen)
    chosen = torch.where(chosen > 0, chosen / penalty, chosen * penalty)
    return logits.scatter(-1, seen, chosen)


def sample(logits: Tensor, temperature: float = 1.0, k: int = 0, p: float = 1.0, generator=None) -> Tensor:
    if temperature == 0:
        return logits.argmax(dim=-1)
    logits = logits / temperature
    if k > 0:
        logits = top_k_filter(logits, k)
    if p < 1.0:
        logits = top_p_filter(logits, p)
    probs = torch.softmax(logits, dim=-1, dtype=torch.float32)
    return torch.multinomial(probs, 1, generator=generator).squeeze(-1)


def main() -> None:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    gen = torch.Generator(device=device).manual_seed(0)
    base = torch.tensor([3.0, 2.5, 1.0, 0.0, -1.0, -4.0], device=device)
    logits = base.expand(2000, -1)
    for settings in [{"temperature": 0.0}, {"temperature": 0.7}, {"k": 2}, {"p": 0.8}, {"k": 4, "p": 0.95}]:
        drawn = sample(logits, **settings, generator=gen)
        histogram = torch.bincount(drawn, minlength=base.numel())
        print(settings, histogram.tolist())
    half = sample(logits.to(torch.bfloat16), k=3, generator=gen)
    assert half.max() <= 2
    seen = torch.tensor([[0, 1]], device=device).expand(2000, -1)
    penalized = repetition_penalty(logits, seen, 2.0)
    assert torch.allclose(penalized[0, :2], base[:2] / 2)


if __name__ == "__main__":
    main()
