"""Distil the middle features of a teacher into a smaller student."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def conv_net(width):
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(width, width * 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(width * 2 * 16, 10),
    )


class FeatureTap:
    """Runs a network and hands out the outputs of some of its layers."""

    def __init__(self, net, layers):
        self.net = net
        self.layers = layers
        self.outputs = []
        for name in layers:
            net.get_submodule(name).register_forward_hook(self._keep)

    def _keep(self, module, inputs, output):
        self.outputs.append(output)

    def __call__(self, x):
        out = self.net(x)
        return out, self.outputs[-len(self.layers):]


def distill_step(teacher, student, adapt, optimizer, images, labels):
    with torch.no_grad():
        _, targets = teacher(images)
    logits, feats = student(images)
    loss = F.cross_entropy(logits, labels)
    for feat, target in zip(feats, targets):
        loss = loss + F.mse_loss(adapt(feat), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(0)
    teacher = FeatureTap(conv_net(16).eval(), ["3"])
    student = FeatureTap(conv_net(4), ["3"])
    adapt = nn.Conv2d(8, 32, 1)
    optimizer = torch.optim.Adam([*student.net.parameters(), *adapt.parameters()], lr=1e-3)
    for step in range(15):
        images = torch.rand(8, 3, 16, 16)
        labels = torch.randint(0, 10, (8,))
        loss = distill_step(teacher, student, adapt, optimizer, images, labels)
    print(f"loss after {step + 1} steps: {loss:.4f}")


if __name__ == "__main__":
    main()
