# target: GradCAM.explain
# truth: Every call of explain registers a new forward hook on the target layer and never removes it; all old hooks keep firing and keep the activations with their graph, so hooks and memory pile up with each request.
"""Grad-CAM heat maps for a defect inspection service."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class InspectionNet(nn.Module):
    def __init__(self, n_defects: int = 5):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.ReLU())
        self.stage = nn.Sequential(
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
            nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(),
        )
        self.head = nn.Linear(32, n_defects)

    def forward(self, x):
        x = self.stage(self.stem(x))
        return self.head(x.mean(dim=(2, 3)))


class GradCAM:
    """Class activation maps from the gradients at one layer.

    Parameters
    ----------
    model : classifier returning logits (1, n_classes)
    layer : submodule whose output is (1, C, h, w)
    """

    def __init__(self, model: nn.Module, layer: nn.Module):
        self.model = model.eval()
        self.layer = layer

    def explain(self, image: torch.Tensor, class_idx=None) -> torch.Tensor:
        """Heat map in [0, 1] with the size of the image (1, 1, H, W)."""
        activations = []

        def save(module, inputs, output):
            activations.append(output)

        self.layer.register_forward_hook(save)  # error: DG510
        logits = self.model(image)
        if class_idx is None:
            class_idx = int(logits.argmax(dim=1))
        grads = torch.autograd.grad(logits[0, class_idx], activations[0])[0]
        weights = grads.mean(dim=(2, 3), keepdim=True)
        cam = F.relu((weights * activations[0]).sum(dim=1, keepdim=True)).detach()
        cam = F.interpolate(cam, size=image.shape[-2:], mode="bilinear", align_corners=False)
        return (cam / cam.max().clamp_min(1e-8))[0, 0]


def handle_requests(n: int = 10, size: int = 128):
    torch.manual_seed(0)
    model = InspectionNet()
    cam = GradCAM(model, model.stage)
    for _ in range(n):
        yield cam.explain(torch.rand(1, 1, size, size))


if __name__ == "__main__":
    for heat in handle_requests():
        print(f"hottest {heat.max().item():.2f}, share above half {(heat > 0.5).float().mean().item():.2%}")
