# target: script
# source: https://github.com/papagina/RotationContinuity/issues/1
# truth: rounding pushes (trace - 1) / 2 to or beyond 1 for nearly equal rotations; acos is then NaN (or has an infinite
#   derivative), so as soon as predictions get good the loss turns NaN and the weights with it.
import torch
import torch.nn as nn

torch.manual_seed(12)


def normalize(v):
    return v / v.norm(dim=-1, keepdim=True)


def ortho6d_to_matrix(p):
    x = normalize(p[:, 0:3])
    z = normalize(torch.linalg.cross(x, p[:, 3:6]))
    y = torch.linalg.cross(z, x)
    return torch.stack([x, y, z], dim=-1)


def geodesic_distance(m1, m2):
    m = torch.bmm(m1, m2.transpose(1, 2))
    cos = (m.diagonal(dim1=1, dim2=2).sum(-1) - 1) / 2
    return torch.acos(cos)  # error: DG410|DG412


class PointNet(nn.Module):
    """Two point clouds -> rotation between them (6d representation)."""

    def __init__(self, n_points, width=128):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(n_points * 6, width), nn.LeakyReLU(),
            nn.Linear(width, width), nn.LeakyReLU(),
            nn.Linear(width, 6),
        )

    def forward(self, a, b):
        return ortho6d_to_matrix(self.net(torch.cat([a.flatten(1), b.flatten(1)], 1)))


def batch(template, size, max_angle):
    axis = normalize(torch.randn(size, 3))
    angle = torch.rand(size, 1, 1) * max_angle
    zero = torch.zeros(size)
    k = torch.stack([zero, -axis[:, 2], axis[:, 1], axis[:, 2], zero, -axis[:, 0], -axis[:, 1], axis[:, 0], zero], 1)
    k = k.view(-1, 3, 3)
    rot = torch.eye(3) + torch.sin(angle) * k + (1 - torch.cos(angle)) * k @ k
    src = template.expand(size, -1, -1)
    return src, src @ rot.transpose(1, 2), rot


def train(iterations=1500):
    template = torch.randn(1, 5, 3)
    model = PointNet(5)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.StepLR(opt, 500, 0.3)
    for it in range(1, iterations + 1):
        src, dst, rot = batch(template, 64, max_angle=0.8)
        theta = geodesic_distance(model(src, dst), rot)
        loss = theta.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if it % 250 == 0:
            print(f"{it:5d}: mean error {torch.rad2deg(loss.detach()).item():.2f} deg")
    return model


if __name__ == "__main__":
    train()
