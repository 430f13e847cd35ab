# target: train_step
# truth: frame_mask creates its arange on the CPU while the lengths have been moved to the GPU with the batch, so on
#   CUDA the comparison raises 'RuntimeError: Expected all tensors to be on the same device, but found at least two
#   devices, cpu and cuda:0!'; on the CPU it works.
"""Utterance-level speaker classification from variable-length filterbank frames."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def collate(samples):
    """Pads a list of (frames, speaker) to a batch; frames are (time, n_mels)."""
    frames = nn.utils.rnn.pad_sequence([s[0] for s in samples], batch_first=True)
    return {
        "frames": frames,
        "lengths": torch.tensor([len(s[0]) for s in samples]),
        "speaker": torch.tensor([s[1] for s in samples]),
    }


def frame_mask(lengths, max_len):
    """True on real frames: (batch,) lengths -> (batch, max_len)."""
    steps = torch.arange(max_len)  # error: DG203|DG205
    return steps.unsqueeze(0) < lengths.unsqueeze(1)


class AttentiveStats(nn.Module):
    """Attention-weighted mean and standard deviation over the frames."""

    def __init__(self, width, bottleneck=16):
        super().__init__()
        self.att = nn.Sequential(nn.Linear(width, bottleneck), nn.Tanh(), nn.Linear(bottleneck, 1))

    def forward(self, h, mask):
        score = self.att(h).squeeze(-1).masked_fill(~mask, float("-inf"))
        alpha = score.softmax(dim=1).unsqueeze(-1)
        mean = (alpha * h).sum(1)
        var = (alpha * (h - mean.unsqueeze(1)) ** 2).sum(1)
        return torch.cat((mean, (var + 1e-5).sqrt()), dim=-1)


class SpeakerNet(nn.Module):
    def __init__(self, n_mels, n_speakers, width=64):
        super().__init__()
        self.encode = nn.Sequential(
            nn.Linear(n_mels, width), nn.LayerNorm(width), nn.GELU(), nn.Linear(width, width), nn.GELU()
        )
        self.pool = AttentiveStats(width)
        self.out = nn.Linear(2 * width, n_speakers)

    def forward(self, frames, lengths):
        h = self.encode(frames)
        mask = frame_mask(lengths, frames.size(1))
        return self.out(self.pool(h, mask))


def train_step(model, optimizer, batch, device):
    """batch as built by collate (every utterance has at least one frame)."""
    model.train()
    batch = {name: value.to(device) for name, value in batch.items()}
    logits = model(batch["frames"], batch["lengths"])
    loss = F.cross_entropy(logits, batch["speaker"], label_smoothing=0.1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()
