# target: simulate
# truth: The trajectory is grown with torch.cat at every step, which copies everything recorded so far; the cost is quadratic in the number of steps and dominates the run for a few thousand steps.
"""Leapfrog integration of test particles around a binary star."""
import torch

G = 1.0


def star_positions(t: float, separation: float = 1.0) -> torch.Tensor:
    """Positions of the two stars on their circular orbit, shape (2, 2)."""
    angle = torch.tensor(t)
    direction = torch.stack([torch.cos(angle), torch.sin(angle)])
    return 0.5 * separation * torch.stack([direction, -direction])


def acceleration(x: torch.Tensor, t: float, softening: float = 0.05) -> torch.Tensor:
    stars = star_positions(t)
    offset = stars.unsqueeze(0) - x.unsqueeze(1)
    dist2 = offset.pow(2).sum(-1, keepdim=True) + softening**2
    return (0.5 * G * offset / dist2.pow(1.5)).sum(dim=1)


def initial_state(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    radius = 2.0 + 3.0 * torch.rand(n)
    phase = 2 * torch.pi * torch.rand(n)
    x = torch.stack([radius * torch.cos(phase), radius * torch.sin(phase)], dim=1)
    speed = (G / radius).sqrt()
    v = torch.stack([-speed * torch.sin(phase), speed * torch.cos(phase)], dim=1)
    return x, v


@torch.no_grad()
def simulate(n_particles: int = 500, n_steps: int = 2000, dt: float = 0.01) -> torch.Tensor:
    """Trajectories of shape (n_steps + 1, n_particles, 2)."""
    torch.manual_seed(8)
    x, v = initial_state(n_particles)
    trajectory = x.unsqueeze(0)
    a = acceleration(x, 0.0)
    for step in range(1, n_steps + 1):
        v = v + 0.5 * dt * a
        x = x + dt * v
        a = acceleration(x, step * dt)
        v = v + 0.5 * dt * a
        trajectory = torch.cat([trajectory, x.unsqueeze(0)])  # error: DG608
    return trajectory


def ejected(trajectory: torch.Tensor, limit: float = 20.0) -> torch.Tensor:
    """Which particles end outside the given radius."""
    return trajectory[-1].norm(dim=-1) > limit


if __name__ == "__main__":
    path = simulate()
    print(path.shape, f"{ejected(path).float().mean().item():.1%} ejected")
