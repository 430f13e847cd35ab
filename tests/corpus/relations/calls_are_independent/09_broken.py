import torch
import torch.nn as nn


class CausalDenoiser(nn.Module):
    """Causal convolution on waveforms (B, 1, T)."""

    def __init__(self, channels=8, kernel=9):
        super().__init__()
        self.kernel = kernel
        self.conv = nn.Conv1d(1, channels, kernel)
        self.out = nn.Conv1d(channels, 1, 1)
        self.tail = None

    def forward(self, wave):
        context = self.kernel - 1
        if self.tail is None or self.tail.size(0) != wave.size(0):
            self.tail = wave.new_zeros(wave.size(0), 1, context)
        x = torch.cat([self.tail, wave], dim=-1)
        self.tail = wave[..., -context:].detach()
        return wave + self.out(torch.tanh(self.conv(x)))


def si_snr(est, ref, eps=1e-8):
    est = est - est.mean(-1, keepdim=True)
    ref = ref - ref.mean(-1, keepdim=True)
    proj = (est * ref).sum(-1, keepdim=True) * ref / (ref.pow(2).sum(-1, keepdim=True) + eps)
    noise = est - proj
    return 10 * torch.log10(proj.pow(2).sum(-1) / (noise.pow(2).sum(-1) + eps) + eps)


torch.manual_seed(0)
t = torch.arange(800) / 800
clean = torch.stack([torch.sin(2 * torch.pi * f * t) for f in torch.linspace(3, 30, 24)]).unsqueeze(1)
noisy = clean + 0.2 * torch.randn_like(clean)
model = CausalDenoiser()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(3):
    for idx in torch.randperm(24).split(6):
        loss = -si_snr(model(noisy[idx]), clean[idx]).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
