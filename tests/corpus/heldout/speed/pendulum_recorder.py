# target: simulate
# truth: Recorder.write concatenates the whole record with one more sample at every step, which copies everything written so far: O(steps^2) copies, the simulation gets slower the longer it runs.
"""Simulate a set of double pendulums and keep the whole trajectory."""
import math

import torch


def acceleration(theta, omega, g=9.81):
    a, b = theta.unbind(-1)
    wa, wb = omega.unbind(-1)
    d = a - b
    den = 3 - (2 * d).cos()
    acc_a = (-3 * g * a.sin() - g * (a - 2 * b).sin() - 2 * d.sin() * (wb**2 + wa**2 * d.cos())) / den
    acc_b = 2 * d.sin() * (2 * wa**2 + 2 * g * a.cos() + wb**2 * d.cos()) / den
    return torch.stack([acc_a, acc_b], dim=-1)


class Recorder:
    """Trajectory as one tensor (steps, systems, 5): time, angles, velocities."""

    def __init__(self, systems):
        self.data = torch.empty(0, systems, 5)

    def write(self, time, theta, omega):
        row = torch.cat([torch.full_like(theta[:, :1], time), theta, omega], dim=1)
        self.data = torch.cat([self.data, row[None]])  # error: DG608

    def energy(self, g=9.81):
        _, a, b, wa, wb = self.data.unbind(-1)
        kinetic = wa**2 + 0.5 * wb**2 + wa * wb * (a - b).cos()
        return kinetic - 2 * g * a.cos() - g * b.cos()


class Stepper:
    def __init__(self, dt):
        self.dt = dt

    def slope(self, state):
        theta, omega = state[..., :2], state[..., 2:]
        return torch.cat([omega, acceleration(theta, omega)], dim=-1)

    def __call__(self, state):
        half = state + 0.5 * self.dt * self.slope(state)
        return state + self.dt * self.slope(half)


@torch.no_grad()
def simulate(steps=1600, systems=250, dt=1e-3):
    torch.manual_seed(0)
    theta = math.pi * (0.25 + 0.1 * torch.rand(systems, 2))
    state = torch.cat([theta, torch.zeros_like(theta)], dim=1)
    advance, recorder = Stepper(dt), Recorder(systems)
    for step in range(steps):
        state = advance(state)
        recorder.write(step * dt, state[:, :2], state[:, 2:])
    energy = recorder.energy()
    return (energy[-1] - energy[0]).abs().max().item()


if __name__ == "__main__":
    print(f"drift of the energy {simulate():.2e}")
