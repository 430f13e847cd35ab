# source: https://github.com/mozilla/TTS/issues/473
import torch
from torch import nn
from torch.nn import functional as F


def sequence_mask(sequence_length, max_len=None):
    if max_len is None:
        max_len = int(sequence_length.max())
    seq_range = torch.arange(max_len, dtype=sequence_length.dtype, device=sequence_length.device)
    return seq_range.unsqueeze(0) < sequence_length.unsqueeze(1)


class L1LossMasked(nn.Module):
    def forward(self, x, target, length):
        mask = sequence_mask(length, max_len=target.size(1)).unsqueeze(2).expand_as(x)
        return F.l1_loss(x * mask, target * mask, reduction="sum") / mask.sum()


class GuidedAttentionLoss(nn.Module):
    def __init__(self, sigma=0.4):
        super().__init__()
        self.sigma = sigma

    def _make_ga_masks(self, ilens, olens):
        B = len(ilens)
        max_ilen = int(ilens.max())
        max_olen = int(olens.max())
        ga_masks = torch.zeros((B, max_olen, max_ilen), device=ilens.device)
        for idx, (ilen, olen) in enumerate(zip(ilens, olens)):
            ga_masks[idx, :olen, :ilen] = self._make_ga_mask(ilen, olen, self.sigma)
        return ga_masks

    def forward(self, att_ws, ilens, olens):
        ga_masks = self._make_ga_masks(ilens, olens)
        seq_masks = self._make_masks(ilens, olens)
        losses = ga_masks * att_ws
        return torch.mean(losses.masked_select(seq_masks))

    @staticmethod
    def _make_ga_mask(ilen, olen, sigma):
        grid_x, grid_y = torch.meshgrid(
            torch.arange(int(olen), device=olen.device).float(),
            torch.arange(int(ilen), device=ilen.device).float(),
            indexing="ij",
        )
        return 1.0 - torch.exp(-((grid_y / ilen - grid_x / olen) ** 2) / (2 * sigma ** 2))

    @staticmethod
    def _make_masks(ilens, olens):
        in_masks = sequence_mask(ilens)
        out_masks = sequence_mask(olens)
        return out_masks.unsqueeze(-1) & in_masks.unsqueeze(-2)


class TacotronLoss(nn.Module):
    def __init__(self, ga_alpha=5.0, ga_sigma=0.4):
        super().__init__()
        self.ga_alpha = ga_alpha
        self.criterion = L1LossMasked()
        self.criterion_ga = GuidedAttentionLoss(sigma=ga_sigma) if ga_alpha > 0 else None

    def forward(self, decoder_output, mel_input, output_lens, alignments, input_lens):
        return_dict = {}
        loss = self.criterion(decoder_output, mel_input, output_lens)
        return_dict["decoder_loss"] = loss
        if self.criterion_ga is not None:
            ga_loss = self.criterion_ga(alignments, input_lens, output_lens)
            loss = loss + ga_loss * self.ga_alpha
            return_dict["ga_loss"] = ga_loss * self.ga_alpha
        return_dict["loss"] = loss
        return return_dict


class TinyTacotron(nn.Module):
    def __init__(self, num_chars=30, dim=24, n_mel=16):
        super().__init__()
        self.embedding = nn.Embedding(num_chars, dim, padding_idx=0)
        self.query = nn.Linear(n_mel, dim)
        self.proj = nn.Linear(dim, n_mel)

    def forward(self, text, text_lens, mel):
        keys = self.embedding(text)
        prev = F.pad(mel, (0, 0, 1, 0))[:, :-1]
        scores = self.query(prev) @ keys.transpose(1, 2)
        scores = scores.masked_fill(~sequence_mask(text_lens, text.size(1)).unsqueeze(1), -1e4)
        alignments = scores.softmax(-1)
        return self.proj(alignments @ keys), alignments


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = TinyTacotron().to(device)
    criterion = TacotronLoss().to(device)
    optim = torch.optim.Adam(model.parameters(), lr=1e-2)
    text_lens, mel_lens = torch.tensor([9, 7, 5]), torch.tensor([20, 24, 12])
    text, mel = torch.randint(1, 30, (3, 9)), torch.randn(3, 24, 16)
    text, text_lens, mel, mel_lens = (t.to(device) for t in (text, text_lens, mel, mel_lens))
    for step in range(5):
        out, align = model(text, text_lens, mel)
        losses = criterion(out, mel, mel_lens, align, text_lens)
        optim.zero_grad()
        losses["loss"].backward()
        optim.step()
        print(step, {k: round(v.item(), 4) for k, v in losses.items()})
