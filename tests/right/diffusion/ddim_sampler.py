"""Deterministic DDIM sampling over a strided subset of steps, with an exact score for a Gaussian."""
import torch


class Schedule:
    def __init__(self, steps: int, device: torch.device):
        betas = torch.linspace(1e-4, 0.05, steps, device=device, dtype=torch.float64)
        self.alpha_bar = torch.cumprod(1 - betas, dim=0)
        self.steps = steps

    def strided(self, count: int) -> list:
        return torch.linspace(0, self.steps - 1, count).round().long().flip(0).tolist()


def exact_eps(x, alpha_bar, mean, var):
    """The best noise prediction when the data is N(mean, var I)."""
    total_var = alpha_bar * var + (1 - alpha_bar)
    score = -(x - alpha_bar.sqrt() * mean) / total_var
    return -score * (1 - alpha_bar).sqrt()


@torch.no_grad()
def ddim(schedule, eps_fn, x, count, eta=0.0, generator=None):
    order = schedule.strided(count)
    one = schedule.alpha_bar.new_ones(())
    for i, t in enumerate(order):
        a = schedule.alpha_bar[t]
        a_next = schedule.alpha_bar[order[i + 1]] if i + 1 < len(order) else one
        eps = eps_fn(x, a)
        x0 = (x - (1 - a).sqrt() * eps) / a.sqrt()
        sigma = eta * ((1 - a_next) / (1 - a) * (1 - a / a_next)).clamp_min(0).sqrt()
        direction = (1 - a_next - sigma**2).clamp_min(0).sqrt() * eps
        x = a_next.sqrt() * x0 + direction
        if eta > 0:
            x = x + sigma * torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype)
    return x


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    gen = torch.Generator(device=device).manual_seed(2)
    schedule = Schedule(200, device)
    mean = torch.tensor([2.0, -1.0], device=device, dtype=torch.float64)
    var = 0.25

    def eps_fn(x, a):
        return exact_eps(x, a, mean, var)

    start = torch.randn(4000, 2, generator=gen, device=device, dtype=torch.float64)
    for count, eta in [(200, 0.0), (50, 0.0), (200, 1.0)]:
        out = ddim(schedule, eps_fn, start, count, eta, gen)
        m, s = out.mean(0).tolist(), out.std(0).tolist()
        print(f"steps {count} eta {eta}: mean {m[0]:.2f} {m[1]:.2f}, std {s[0]:.2f} {s[1]:.2f}")
    again = ddim(schedule, eps_fn, start, 50)
    torch.testing.assert_close(again, ddim(schedule, eps_fn, start, 50))


if __name__ == "__main__":
    main()
