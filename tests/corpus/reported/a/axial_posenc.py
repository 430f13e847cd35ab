# source: https://github.com/tatp22/multidim-positional-encoding/issues/33
# target: Summer.forward
# truth: the cached encoding is assembled in a tensor made on the CPU, so for a CUDA input the encoding comes
#   back on the CPU and Summer's addition fails (tensor on cuda, penc on cpu)
import torch
from torch import nn


def get_emb(sin_inp):
    emb = torch.stack((sin_inp.sin(), sin_inp.cos()), dim=-1)
    return torch.flatten(emb, -2, -1)


class PositionalEncoding2D(nn.Module):
    """Sinusoidal encoding for (batch, x, y, channels) tensors; the result is cached per shape."""

    def __init__(self, channels, dtype_override=None):
        super().__init__()
        self.org_channels = channels
        channels = -(-channels // 4) * 2
        inv_freq = 1.0 / (10000 ** (torch.arange(0, channels, 2).float() / channels))
        self.register_buffer("inv_freq", inv_freq)
        self.cached_penc = None
        self.channels = channels
        self.dtype_override = dtype_override

    def forward(self, tensor):
        if tensor.dim() != 4:
            raise RuntimeError("The input tensor has to be 4d!")
        if self.cached_penc is not None and self.cached_penc.shape == tensor.shape:
            return self.cached_penc

        self.cached_penc = None
        batch_size, x, y, orig_ch = tensor.shape
        pos_x = torch.arange(x, device=tensor.device, dtype=self.inv_freq.dtype)
        pos_y = torch.arange(y, device=tensor.device, dtype=self.inv_freq.dtype)
        emb_x = get_emb(torch.einsum("i,j->ij", pos_x, self.inv_freq)).unsqueeze(1)
        emb_y = get_emb(torch.einsum("i,j->ij", pos_y, self.inv_freq))
        dtype = self.dtype_override if self.dtype_override is not None else tensor.dtype
        emb = torch.zeros((x, y, self.channels * 2), dtype=dtype)  # culprit
        emb[:, :, : self.channels] = emb_x
        emb[:, :, self.channels : 2 * self.channels] = emb_y

        self.cached_penc = emb[None, :, :, :orig_ch].repeat(batch_size, 1, 1, 1)
        return self.cached_penc


class PositionalEncodingPermute2D(nn.Module):
    """Same for (batch, channels, x, y)."""

    def __init__(self, channels, dtype_override=None):
        super().__init__()
        self.penc = PositionalEncoding2D(channels, dtype_override)

    @property
    def org_channels(self):
        return self.penc.org_channels

    def forward(self, tensor):
        enc = self.penc(tensor.permute(0, 2, 3, 1))
        return enc.permute(0, 3, 1, 2)


class Summer(nn.Module):
    """Adds the encoding to its input."""

    def __init__(self, penc):
        super().__init__()
        self.penc = penc

    def forward(self, tensor):
        penc = self.penc(tensor)
        if tensor.size() != penc.size():
            raise ValueError(f"size mismatch: {tuple(tensor.size())} and {tuple(penc.size())}")
        return tensor + penc


class PatchStem(nn.Module):
    def __init__(self, in_channels=3, dim=32, patch=4):
        super().__init__()
        self.proj = nn.Conv2d(in_channels, dim, patch, stride=patch)
        self.pos = Summer(PositionalEncodingPermute2D(dim))
        self.norm = nn.LayerNorm(dim)

    def forward(self, image):
        x = self.pos(self.proj(image))
        return self.norm(x.flatten(2).transpose(1, 2))
