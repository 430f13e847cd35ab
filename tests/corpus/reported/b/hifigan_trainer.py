# source: https://github.com/rishikksh20/HiFi-GAN/issues/8
# target: train_step
# truth: the mel front-end works on `.data` of the magnitudes, so the mel loss of the generated audio carries no
#   gradient: loss_mel is logged with weight 45 but the generator is trained by the adversarial term alone
import torch
import torch.nn as nn
import torch.nn.functional as F


class STFT(nn.Module):
    def __init__(self, filter_length=256, hop_length=64, win_length=256):
        super().__init__()
        self.filter_length = filter_length
        self.hop_length = hop_length
        self.win_length = win_length
        self.register_buffer("window", torch.hann_window(win_length))

    def transform(self, x):
        spec = torch.stft(x, self.filter_length, self.hop_length, self.win_length, self.window,
                          center=True, return_complex=True)
        return torch.sqrt(spec.real ** 2 + spec.imag ** 2 + 1e-9), torch.angle(spec)


class TacotronSTFT(nn.Module):
    def __init__(self, n_mel_channels=20, filter_length=256, hop_length=64, win_length=256, clip_val=1e-5):
        super().__init__()
        self.stft_fn = STFT(filter_length, hop_length, win_length)
        self.clip_val = clip_val
        bins = filter_length // 2 + 1
        centers = torch.linspace(0, bins - 1, n_mel_channels + 2)
        grid = torch.arange(bins).float()
        width = centers[1] - centers[0]
        basis = torch.stack([(1 - (grid - c).abs() / width).clamp(min=0) for c in centers[1:-1]])
        self.register_buffer("mel_basis", basis)

    def spectral_normalize(self, magnitudes):
        return torch.log(torch.clamp(magnitudes, min=self.clip_val))

    def mel_spectrogram(self, y):
        magnitudes, phases = self.stft_fn.transform(y.clamp(-1, 1))
        magnitudes = magnitudes.data  # culprit
        mel_output = torch.matmul(self.mel_basis, magnitudes)
        return self.spectral_normalize(mel_output)


class Generator(nn.Module):
    def __init__(self, mel=20, channels=32, hop=64):
        super().__init__()
        self.pre = nn.Conv1d(mel, channels, 3, padding=1)
        self.up = nn.ConvTranspose1d(channels, channels, hop * 2, stride=hop, padding=hop // 2)
        self.post = nn.Conv1d(channels, 1, 7, padding=3)

    def forward(self, mel):
        x = F.leaky_relu(self.pre(mel), 0.1)
        return torch.tanh(self.post(F.leaky_relu(self.up(x), 0.1)))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(1, 16, 15, 4, 7), nn.LeakyReLU(0.1),
                                 nn.Conv1d(16, 16, 15, 4, 7), nn.LeakyReLU(0.1), nn.Conv1d(16, 1, 3, 1, 1))

    def forward(self, x):
        return self.net(x)


def train_step(gen, disc, stft, optim_g, optim_d, mel, audio, lamda_mel=45.0):
    fake_audio = gen(mel)[..., : audio.size(-1)]
    disc_real, disc_fake = disc(audio), disc(fake_audio.detach())
    loss_d = F.mse_loss(disc_real, torch.ones_like(disc_real)) + disc_fake.pow(2).mean()
    optim_d.zero_grad()
    loss_d.backward()
    optim_d.step()

    mel_fake = stft.mel_spectrogram(fake_audio.squeeze(1))
    loss_mel = F.l1_loss(mel[..., : mel_fake.size(-1)], mel_fake)
    disc_fake = disc(fake_audio)
    adv_loss = F.mse_loss(disc_fake, torch.ones_like(disc_fake))
    loss_g = adv_loss + lamda_mel * loss_mel
    optim_g.zero_grad()
    loss_g.backward()
    optim_g.step()
    return loss_d.item(), adv_loss.item(), loss_mel.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    gen, disc, stft = Generator().to(device), Discriminator().to(device), TacotronSTFT().to(device)
    optim_g = torch.optim.AdamW(gen.parameters(), 2e-3, betas=(0.8, 0.99))
    optim_d = torch.optim.AdamW(disc.parameters(), 2e-4, betas=(0.8, 0.99))
    t = torch.arange(2048, device=device) / 8000.0
    audio = torch.stack([0.5 * torch.sin(2 * torch.pi * f * t) for f in (220.0, 440.0, 660.0, 880.0)]).unsqueeze(1)
    mel = stft.mel_spectrogram(audio.squeeze(1))
    for step in range(24):
        d, a, m = train_step(gen, disc, stft, optim_g, optim_d, mel, audio)
        if step % 8 == 7:
            print("step %d d %.3f adv %.3f mel %.3f" % (step + 1, d, a, m))
