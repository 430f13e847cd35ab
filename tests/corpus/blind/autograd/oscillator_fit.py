# target: script
# truth: torch.tensor([...]) copies the numbers of stiffness and damping out of the graph, so log_k and log_c never
#   receive a gradient (.grad stays None); the loss still falls because x0 and v0 are fitted, and the reported stiffness
#   and damping are the starting guesses.
"""Estimate stiffness and damping of a vibrating beam from noisy position readings.

The beam is modelled as x'' = -k x - c x'; besides k and c the state at time zero is unknown.
"""
import torch

DT = 0.05
STEPS = 120


def system_matrix(stiffness, damping):
    """State space matrix of (x, x')."""
    return torch.tensor([[0.0, 1.0], [-stiffness, -damping]])  # error: DG105|DG112


def simulate(stiffness, damping, x0, v0, steps=STEPS, dt=DT):
    """Positions at 0, dt, 2 dt, ...; exact for the linear system."""
    advance = torch.linalg.matrix_exp(system_matrix(stiffness, damping) * dt)
    state = torch.stack([x0, v0])
    positions = []
    for _ in range(steps):
        positions.append(state[0])
        state = advance @ state
    return torch.stack(positions)


def measure(seed=3, noise=0.02):
    gen = torch.Generator().manual_seed(seed)
    clean = simulate(torch.tensor(6.0), torch.tensor(0.4), torch.tensor(1.0), torch.tensor(-0.3))
    return clean + noise * torch.randn(clean.shape, generator=gen)


def identify(readings, iterations=400, lr=0.05):
    """Least squares by Adam; the logarithms keep stiffness and damping positive."""
    log_k = torch.tensor(1.5, requires_grad=True)
    log_c = torch.tensor(-1.5, requires_grad=True)
    x0 = torch.tensor(0.0, requires_grad=True)
    v0 = torch.tensor(0.0, requires_grad=True)
    unknowns = [log_k, log_c, x0, v0]
    optimizer = torch.optim.Adam(unknowns, lr=lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, iterations)
    for it in range(iterations):
        path = simulate(log_k.exp(), log_c.exp(), x0, v0, steps=len(readings))
        loss = (path - readings).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if it % 100 == 0:
            print(f"{it:4d}  mse {loss.item():.5f}")
    return {
        "stiffness": log_k.exp().item(),
        "damping": log_c.exp().item(),
        "x0": x0.item(),
        "v0": v0.item(),
    }


if __name__ == "__main__":
    for name, value in identify(measure()).items():
        print(f"{name:>10s} {value: .3f}")
