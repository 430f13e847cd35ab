# target: PassageBank.add
# truth: The stored vectors are views of the whole (batch, length, dim) hidden-state tensor, so every kept vector keeps
#   the full sequence storage alive: the bank uses `length` times the memory it should and runs out of memory as
#   passages are added.
"""In-memory bank of passage vectors for dense retrieval."""
from typing import Dict, List, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class PassageEncoder(nn.Module):
    """Transformer encoder; token 0 is padding, position 0 summarises the passage."""

    def __init__(self, vocab_size: int, dim: int = 64, heads: int = 4, layers: int = 2, max_len: int = 512):
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, dim, padding_idx=0)
        self.positions = nn.Embedding(max_len, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)

    def forward(self, ids: Tensor) -> Tensor:
        """ids (batch, length) -> hidden states (batch, length, dim)."""
        pos = torch.arange(ids.size(1), device=ids.device)
        hidden = self.tokens(ids) + self.positions(pos)
        return self.encoder(hidden, src_key_padding_mask=ids.eq(0))


class PassageBank:
    """Keeps one vector per passage on the accelerator for exact search.

    >>> bank = PassageBank(PassageEncoder(1000), torch.device("cpu"))
    >>> bank.add(["a", "b"], torch.randint(1, 1000, (2, 128)))
    >>> len(bank)
    2
    """

    def __init__(self, encoder: PassageEncoder, device: torch.device):
        self.encoder = encoder.to(device).eval()
        self.device = device
        self._vectors: Dict[str, Tensor] = {}

    def __len__(self) -> int:
        return len(self._vectors)

    @torch.no_grad()
    def _encode(self, ids: Tensor) -> Tensor:
        hidden = self.encoder(ids.to(self.device))
        return hidden[:, 0]  # error: DG511

    def add(self, keys: Sequence[str], ids: Tensor) -> None:
        for key, vec in zip(keys, self._encode(ids)):
            self._vectors[key] = vec

    @torch.no_grad()
    def search(self, ids: Tensor, k: int = 5) -> List[List[str]]:
        keys = list(self._vectors)
        bank = F.normalize(torch.stack([self._vectors[key] for key in keys]), dim=-1)
        queries = F.normalize(self._encode(ids), dim=-1)
        top = (queries @ bank.T).topk(min(k, len(keys)), dim=-1).indices
        return [[keys[i] for i in row] for row in top.tolist()]
