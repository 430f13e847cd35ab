"""Grad-CAM: hooks keep a layer's output and its gradient, the map points at the evidence."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GradCAM:
    def __init__(self, model, layer):
        self.model = model
        self.activation = None
        self.handle = layer.register_forward_hook(self._keep)

    def _keep(self, module, inputs, output):
        self.activation = output

    def __call__(self, x, target):
        self.model.eval()
        logits = self.model(x)
        score = logits.gather(1, target.unsqueeze(1)).sum()
        (gradient,) = torch.autograd.grad(score, self.activation)
        with torch.no_grad():
            weights = gradient.mean(dim=(2, 3), keepdim=True)
            cam = F.relu((weights * self.activation).sum(dim=1, keepdim=True))
            cam = F.interpolate(cam, size=x.shape[-2:], mode="bilinear", align_corners=False)
            top = cam.amax(dim=(2, 3), keepdim=True).clamp(min=1e-6)
        self.activation = None  # lets go of the graph
        return (cam / top).squeeze(1)

    def close(self):
        self.handle.remove()


def spots(n, device):
    """Class 1 has a bright 3x3 spot somewhere, class 0 has none."""
    y = torch.randint(2, (n,), device=device)
    x = 0.2 * torch.randn(n, 1, 16, 16, device=device)
    pos = torch.randint(1, 13, (n, 2), device=device)
    rows = torch.arange(n, device=device)[y == 1]
    for dy in range(3):
        for dx in range(3):
            x[rows, 0, pos[rows, 0] + dy, pos[rows, 1] + dx] += 1.5
    return x, y, pos


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    conv = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU())
    model = nn.Sequential(conv, nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(8, 2)).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(50):
        x, y, _ = spots(24, device)
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"last loss {loss.item():.3f}")

    cam = GradCAM(model, conv)
    x, y, pos = spots(40, device)
    x, pos, y = x[y == 1], pos[y == 1], y[y == 1]
    peak = cam(x, y).flatten(1).argmax(dim=1)
    cam.close()
    found = torch.stack([torch.div(peak, 16, rounding_mode="floor"), peak % 16], dim=1)
    distance = (found - (pos + 1)).abs().amax(dim=1)
    print(f"peak within two pixels: {(distance <= 2).float().mean().item():.2f}")


if __name__ == "__main__":
    main()
