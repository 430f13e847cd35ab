# source: https://github.com/myscience/open-genie/issues/6
import torch
import torch.nn.functional as F
from torch import nn


class RecordingProbe:
    """Collects the output of one module over successive forward calls."""

    def __init__(self):
        self.features = []

    def __call__(self, module, inputs, output):
        self.features.append(output.flatten(start_dim=1))

    def clear(self):
        self.features = []


class PerceptualLoss(nn.Module):
    def __init__(self, feature_net, layers=("1", "3")):
        super().__init__()
        self.net = feature_net.eval()
        for p in self.net.parameters():
            p.requires_grad_(False)
        self.probes = {name: RecordingProbe() for name in layers}
        self.handles = [self.net.get_submodule(name).register_forward_hook(probe)
                        for name, probe in self.probes.items()]

    def train(self, mode=True):
        return super().train(False)

    def forward(self, rec_video, inp_video, num_frames=2):
        b, c, t, h, w = inp_video.shape
        idx = torch.randint(0, t, (num_frames,), device=inp_video.device)
        fake = rec_video[:, :, idx].transpose(1, 2).reshape(-1, c, h, w)
        real = inp_video[:, :, idx].transpose(1, 2).reshape(-1, c, h, w)

        for probe in self.probes.values():
            probe.clear()
        self.net(fake)
        self.net(real)

        loss = 0.0
        for probe in self.probes.values():
            fake_feat, real_feat = probe.features
            loss = loss + F.mse_loss(fake_feat, real_feat)
        return loss / len(self.probes)


class VideoAutoencoder(nn.Module):
    def __init__(self, channels=3, hidden=8):
        super().__init__()
        self.enc = nn.Conv3d(channels, hidden, 3, stride=(1, 2, 2), padding=1)
        self.dec = nn.Sequential(nn.Upsample(scale_factor=(1, 2, 2)), nn.Conv3d(hidden, channels, 3, padding=1))

    def forward(self, video):
        return self.dec(torch.tanh(self.enc(video)))


def feature_network():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU())


class TokenizerTrainer:
    def __init__(self, model, perceptual, lr=1e-2, rec_weight=1.0, perc_weight=1.0):
        self.model = model
        self.perceptual = perceptual
        self.weights = {"rec": rec_weight, "perc": perc_weight}
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)

    def compute_loss(self, video):
        rec_video = self.model(video)
        terms = {
            "rec": F.mse_loss(rec_video, video),
            "perc": self.perceptual(rec_video, video),
        }
        return sum(self.weights[k] * v for k, v in terms.items()), terms

    def training_step(self, video):
        self.optimizer.zero_grad()
        loss, terms = self.compute_loss(video)
        loss.backward()
        self.optimizer.step()
        return {k: float(v) for k, v in terms.items()}


if __name__ == "__main__":
    torch.manual_seed(0)
    trainer = TokenizerTrainer(VideoAutoencoder(), PerceptualLoss(feature_network()), rec_weight=0.1, perc_weight=10.0)
    clip = torch.rand(2, 3, 4, 16, 16)
    for step in range(10):
        logs = trainer.training_step(clip)
        if step % 3 == 0:
            print(step, {k: round(v, 5) for k, v in logs.items()})
