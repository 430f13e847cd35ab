# source: https://github.com/gwx314/STARS/issues/9
from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import nn


class ConvBlock(nn.Module):
    def __init__(self, channels, kernel=5):
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.conv = nn.Conv1d(channels, channels, kernel, padding=kernel // 2)

    def forward(self, x, nonpadding):
        y = self.conv(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return (x + F.gelu(y)) * nonpadding


class FrameAligner(nn.Module):
    def __init__(self, n_mels, hidden, n_phones):
        super().__init__()
        self.pre = nn.Linear(n_mels, hidden)
        self.blocks = nn.ModuleList([ConvBlock(hidden) for _ in range(2)])
        self.ph_out = nn.Linear(hidden, n_phones + 1)
        self.note_out = nn.Linear(hidden, 1)

    def forward(self, mels, mel_nonpadding):
        x = self.pre(mels) * mel_nonpadding
        for block in self.blocks:
            x = block(x, mel_nonpadding)
        return {"ph_frame_logits": self.ph_out(x), "note_bd_logits": self.note_out(x).squeeze(-1)}


class AlignerTask:
    def __init__(self, hparams):
        self.hparams = hparams
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.blank_id = hparams["n_phones"]
        self.model = FrameAligner(hparams["n_mels"], hparams["hidden"], hparams["n_phones"]).to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=hparams["lr"])

    def add_ctc_loss(self, ph_frame_logits, ph, ph_lengths, mel_lengths, losses):
        losses["ph_ctc"] = F.ctc_loss(
            F.log_softmax(ph_frame_logits, dim=-1).transpose(0, 1),
            ph,
            mel_lengths,
            ph_lengths,
            blank=self.blank_id,
            zero_infinity=True,
        ) * self.hparams["lambda_ph_ctc"]

    def add_boundary_loss(self, logits, note_bd, nonpadding, losses):
        loss = F.binary_cross_entropy_with_logits(logits, note_bd, reduction="none")
        losses["note_bd"] = (loss * nonpadding).sum() / nonpadding.sum()

    def run_model(self, sample):
        losses = OrderedDict()
        nonpadding = (sample["mels"].abs().sum(-1) > 0).float()
        out = self.model(sample["mels"], nonpadding.unsqueeze(-1))
        self.add_ctc_loss(out["ph_frame_logits"], sample["ph"], sample["ph_lengths"], sample["mel_lengths"], losses)
        self.add_boundary_loss(out["note_bd_logits"], sample["note_bd"], nonpadding, losses)
        return losses, out

    def training_step(self, sample):
        losses, _ = self.run_model({k: v.to(self.device) for k, v in sample.items()})
        total = sum(losses.values())
        self.optimizer.zero_grad()
        total.backward()
        self.optimizer.step()
        return {k: round(v.item(), 4) for k, v in losses.items()}


def make_sample(hparams, batch=4, gen=None):
    ph_lengths = torch.randint(3, 6, (batch,), generator=gen)
    ph = torch.randint(0, hparams["n_phones"], (batch, int(ph_lengths.max())), generator=gen)
    mel_lengths = ph_lengths * 5
    mels = torch.zeros(batch, int(mel_lengths.max()), hparams["n_mels"])
    note_bd = torch.zeros(mels.shape[:2])
    for b in range(batch):
        for i in range(int(ph_lengths[b])):
            mels[b, i * 5:(i + 1) * 5] = 0.2 * torch.randn(5, hparams["n_mels"], generator=gen) + 0.01
            mels[b, i * 5:(i + 1) * 5, ph[b, i] % hparams["n_mels"]] += 2.0
            note_bd[b, i * 5] = 1.0
    return {"mels": mels, "ph": ph, "ph_lengths": ph_lengths, "mel_lengths": mel_lengths, "note_bd": note_bd}


if __name__ == "__main__":
    torch.manual_seed(0)
    hp = {"n_mels": 16, "hidden": 32, "n_phones": 12, "lr": 3e-3, "lambda_ph_ctc": 0.5}
    task, gen = AlignerTask(hp), torch.Generator().manual_seed(0)
    for step in range(45):
        logs = task.training_step(make_sample(hp, gen=gen))
        if step % 15 == 14:
            print(step + 1, logs)
