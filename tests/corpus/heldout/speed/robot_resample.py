# target: localise
# truth: systematic resampling walks over the particles in Python with two .item() calls each; on CUDA every one is a device synchronisation (and on the CPU the loop is hundreds of times slower than searchsorted).
"""Monte Carlo localisation of a robot among beacons."""
import math

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class ParticleFilter:
    def __init__(self, particles, size, device=DEVICE, seed=0):
        torch.manual_seed(seed)
        self.device = device
        self.state = torch.rand(particles, 3, device=device)
        self.state *= torch.tensor([*size, 2 * math.pi], device=device)
        self.weight = torch.full((particles,), 1.0 / particles, device=device)

    def move(self, forward, turn):
        n = len(self.state)
        noise = torch.randn(n, 2, device=self.device)
        heading = self.state[:, 2] + turn + 0.05 * noise[:, 0]
        step = forward + 0.05 * noise[:, 1]
        x = self.state[:, 0] + step * heading.cos()
        y = self.state[:, 1] + step * heading.sin()
        self.state = torch.stack([x, y, heading], dim=1)

    def weigh(self, beacons, ranges, sigma=0.3):
        expected = torch.cdist(self.state[:, :2], beacons)
        log_w = -((expected - ranges) / sigma).square().sum(1) / 2
        self.weight = torch.softmax(log_w, dim=0)

    def pick(self, positions):
        edges = self.weight.cumsum(0)
        chosen, j = [], 0
        for i in range(len(positions)):
            while j < len(edges) - 1 and positions[i].item() > edges[j].item():  # error: DG607
                j += 1
            chosen.append(j)
        return torch.tensor(chosen, device=self.device)

    def resample(self):
        n = len(self.state)
        positions = (torch.arange(n, device=self.device) + torch.rand((), device=self.device)) / n
        self.state = self.state[self.pick(positions)]
        self.weight = torch.full_like(self.weight, 1.0 / n)

    def estimate(self):
        return (self.state[:, :2] * self.weight[:, None]).sum(0)


def localise(steps=25, particles=3000):
    size = (20.0, 15.0)
    beacons = torch.tensor([[0.0, 0.0], [20.0, 0.0], [20.0, 15.0], [0.0, 15.0]], device=DEVICE)
    pose = torch.tensor([5.0, 5.0, 0.3], device=DEVICE)
    flt = ParticleFilter(particles, size)
    for _ in range(steps):
        pose[2] += 0.1
        pose[:2] += 0.5 * torch.stack([pose[2].cos(), pose[2].sin()])
        flt.move(0.5, 0.1)
        ranges = (beacons - pose[:2]).norm(dim=1)
        flt.weigh(beacons, ranges + 0.1 * torch.randn(4, device=DEVICE))
        flt.resample()
    return (flt.estimate() - pose[:2]).norm().item()


if __name__ == "__main__":
    print(f"error {localise():.3f} m")
