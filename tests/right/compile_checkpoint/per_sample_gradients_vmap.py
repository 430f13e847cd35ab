"""Per-sample gradients by vmap of grad over functional_call, clipped and noised as in DP-SGD."""
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CLIP, NOISE, LR = 1.0, 0.3, 0.5


def make_sample_loss(model):
    def sample_loss(params, x, y):
        logits = functional_call(model, params, (x.unsqueeze(0),))
        return nn.functional.cross_entropy(logits, y.unsqueeze(0))

    return sample_loss


def clip_and_average(per_sample, generator):
    n = next(iter(per_sample.values())).size(0)
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in per_sample.values()], dim=1).norm(dim=1)
    factor = (CLIP / norms.clamp(min=1e-6)).clamp(max=1.0)
    out = {}
    for name, g in per_sample.items():
        summed = torch.einsum("n,n...->...", factor, g)
        noise = NOISE * CLIP * torch.randn(summed.shape, generator=generator, device=g.device)
        out[name] = (summed + noise) / n
    return out


def main():
    torch.manual_seed(0)
    gen = torch.Generator(device=device).manual_seed(1)
    model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 2)).to(device)
    params = {k: v.detach().clone() for k, v in model.named_parameters()}
    sample_loss = make_sample_loss(model)
    per_sample_grad = vmap(grad(sample_loss), in_dims=(None, 0, 0))

    x = torch.randn(8, 5, device=device)
    y = (x[:, 0] > 0).long()
    stacked = per_sample_grad(params, x, y)
    mean_loss = nn.functional.cross_entropy(model(x), y)
    for (name, p), g in zip(model.named_parameters(), torch.autograd.grad(mean_loss, list(model.parameters()))):
        torch.testing.assert_close(stacked[name].mean(dim=0), g, atol=1e-5, rtol=1e-4)

    for step in range(40):
        x = torch.randn(64, 5, device=device)
        y = (x[:, 0] > 0).long()
        update = clip_and_average(per_sample_grad(params, x, y), gen)
        params = {k: p - LR * update[k] for k, p in params.items()}
        if step % 10 == 0:
            loss = nn.functional.cross_entropy(functional_call(model, params, (x,)), y)
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
