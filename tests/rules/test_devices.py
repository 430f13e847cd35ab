"""Programs whose tensors meet on one device, by who calls what: no rule about devices has anything to say."""

from __future__ import annotations

import pytest
from rule_harness import Example

RULES = frozenset(("DG201", "DG203", "DG204", "DG205"))
SAFE = {
    "a number beside a tensor": """
        class Wrapper(nn.Module):
            def stamps(self, audio: torch.Tensor, size, hop=None):
                if hop is None:
                    hop = self.hop
                segments = F.unfold(audio, kernel_size=(1, size), stride=(1, hop)).transpose(-1, -2)
                stamps = []
                for i, segment in enumerate(segments):
                    stamps.append(i)
                return torch.as_tensor(stamps) * hop * 1000.0 / self.rate
    """,
    "a private method that is given what the file does not place": """
        from ranking import pagerank

        class Split(nn.Module):
            def forward(self, graph):
                return self._split(pagerank(graph))

            def _split(self, values: torch.Tensor):
                return torch.randperm(len(values))[values.argsort()]
    """,
    "a function that only a dataset calls": """
        import torch
        import torchaudio

        def pieces(wave, size):
            padded = torch.cat([wave, torch.zeros(size - wave.size(0))])
            return padded.unfold(0, size, size)

        class Waves(torch.utils.data.Dataset):
            def __init__(self, paths):
                self.paths = paths

            def __getitem__(self, index):
                wave, _ = torchaudio.load(self.paths[index])
                return pieces(wave[0], 16000)
    """,
    "two that change their device together": """
        class Embedding(nn.Module):
            def forward(self, waves, masks=None):
                if masks is None:
                    lengths = waves.shape[1] * torch.ones(waves.shape[0])
                else:
                    lengths = masks.sum(dim=1)
                longest = lengths.max()
                return lengths / longest
    """,
    "a number that fills": """
        class Contrast(nn.Module):
            def forward(self, similar: torch.Tensor, temperature):
                total = (similar / temperature).exp().sum(-1)
                own = torch.Tensor(total.shape).fill_(2.7 ** (1 / temperature)).to(total.device)
                return total - own
    """,
    "sizes beside a tensor": """
        class Shard:
            def indices(self, size, count):
                least = torch.sym_min(size, count)
                shape = [1] * self.dim + [size]
                return torch.arange(size).view(shape), least
    """,
    "a transform": """
        import numpy as np

        class Cutout:
            def __init__(self, length):
                self.length = length

            def __call__(self, image):
                mask = np.ones((image.size(1), image.size(2)), np.float32)
                mask[: self.length, : self.length] = 0
                return image * torch.from_numpy(mask).expand_as(image)
    """,
    "a method that only the constructor names": """
        class Masked(nn.Linear):
            def __init__(self, degrees, features):
                super().__init__(len(degrees), features)
                makers = {"greater": self._mask}
                self.register_buffer("mask", makers["greater"](degrees, features))

            def _mask(self, degrees, features):
                return (torch.arange(features)[:, None] >= degrees.long()).float()

            def forward(self, x):
                return F.linear(x, self.weight * self.mask, self.bias)
    """,
}


@pytest.mark.parametrize("text", SAFE.values(), ids=SAFE.keys())
def test_what_is_on_one_device_is_not_told(text: str) -> None:
    assert not [finding for finding in Example.of(text).findings() if finding.code in RULES]
