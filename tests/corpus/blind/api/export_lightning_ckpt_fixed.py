# target: script
# source: https://github.com/pytorch/examples/issues/1029
# truth: none, the repaired twin of export_lightning_ckpt.py
import os
import tempfile

import torch
import torch.nn as nn


class SpectrumNet(nn.Module):
    """1-d residual network: spectrum -> concentrations of three substances."""

    def __init__(self, width=16, n_out=3):
        super().__init__()
        self.stem = nn.Conv1d(1, width, 7, stride=2, padding=3)
        self.block = nn.Sequential(
            nn.Conv1d(width, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, width, 5, padding=2), nn.BatchNorm1d(width),
        )
        self.fc = nn.Linear(width * 8, n_out)

    def forward(self, x):
        h = torch.relu(self.stem(x.unsqueeze(1)))
        h = torch.relu(h + self.block(h))
        return self.fc(nn.functional.adaptive_avg_pool1d(h, 8).flatten(1))


class RegressionTask(nn.Module):
    """Training wrapper in the style of a trainer framework."""

    def __init__(self, model, lr=3e-3):
        super().__init__()
        self.model = model
        self.loss = nn.SmoothL1Loss()
        self.lr = lr

    def forward(self, x):
        return self.model(x)

    def training_step(self, batch):
        x, y = batch
        return self.loss(self(x), y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.lr)


PEAKS = torch.tensor([14.0, 30.0, 47.0])


def spectra(n):
    conc = torch.rand(n, 3)
    axis = torch.arange(64.0)
    lines = torch.exp(-0.5 * ((axis - PEAKS[:, None]) / 3.0) ** 2)
    return conc @ lines + 0.03 * torch.randn(n, 64), conc


def fit(task, steps, path):
    opt = task.configure_optimizers()
    for _ in range(steps):
        loss = task.training_step(spectra(64))
        opt.zero_grad()
        loss.backward()
        opt.step()
    torch.save({"global_step": steps, "state_dict": task.state_dict()}, path)
    return loss.item()


def load_for_inference(path):
    net = SpectrumNet()
    ckpt = torch.load(path, map_location="cpu")
    weights = {k.removeprefix("model."): v for k, v in ckpt["state_dict"].items()}
    net.load_state_dict(weights)
    return net.eval()


@torch.no_grad()
def mae(net, n=500):
    x, y = spectra(n)
    return (net(x) - y).abs().mean().item()


def main():
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "last.ckpt")
        task = RegressionTask(SpectrumNet())
        print(f"training loss {fit(task, 200, path):.5f}")
        print(f"test error of the trained task {mae(task.eval()):.4f}")
        print(f"test error of the exported net {mae(load_for_inference(path)):.4f}")


if __name__ == "__main__":
    main()
