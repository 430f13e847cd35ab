"""A causal dilated convolution stack that denoises a signal by SI-SDR, with a test of causality."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalConv1d(nn.Conv1d):
    def forward(self, x):
        left = (self.kernel_size[0] - 1) * self.dilation[0]
        return super().forward(F.pad(x, (left, 0)))


class ResidualBlock(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.conv = CausalConv1d(channels, 2 * channels, 3, dilation=dilation)
        self.mix = nn.Conv1d(channels, channels, 1)

    def forward(self, x):
        value, gate = self.conv(x).chunk(2, dim=1)
        return x + self.mix(torch.tanh(value) * torch.sigmoid(gate))


class TCN(nn.Module):
    def __init__(self, channels=12, dilations=(1, 2, 4, 8)):
        super().__init__()
        self.inp = CausalConv1d(1, channels, 3)
        self.blocks = nn.ModuleList([ResidualBlock(channels, d) for d in dilations])
        self.out = nn.Conv1d(channels, 1, 1)

    def forward(self, x):
        h = self.inp(x)
        for block in self.blocks:
            h = block(h)
        return self.out(h)


def si_sdr(estimate, target, eps=1e-8):
    estimate = estimate - estimate.mean(dim=-1, keepdim=True)
    target = target - target.mean(dim=-1, keepdim=True)
    scale = (estimate * target).sum(-1, keepdim=True) / (target.square().sum(-1, keepdim=True) + eps)
    projected = scale * target
    noise = estimate - projected
    return 10 * torch.log10((projected.square().sum(-1) + eps) / (noise.square().sum(-1) + eps))


def signals(n, device, length=200):
    t = torch.linspace(0, 1, length, device=device)
    freq = torch.rand(n, 1, device=device) * 6 + 2
    clean = torch.sin(6.2832 * freq * t).unsqueeze(1)
    return clean + 0.5 * torch.randn_like(clean), clean


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = TCN().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(30):
        noisy, clean = signals(8, device)
        loss = -si_sdr(model(noisy), clean).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 10 == 0:
            print(f"step {step}: SI-SDR {-loss.item():.2f} dB")
    model.eval()
    with torch.no_grad():
        noisy, clean = signals(8, device)
        changed = noisy.clone()
        changed[..., 100:] = 0
        torch.testing.assert_close(model(noisy)[..., :100], model(changed)[..., :100])
        print(f"noisy {si_sdr(noisy, clean).mean().item():.2f} dB, cleaned {si_sdr(model(noisy), clean).mean().item():.2f} dB")


if __name__ == "__main__":
    main()
