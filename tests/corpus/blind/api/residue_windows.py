# target: SecondaryStructureNet.training_step
# truth: nn.TransformerEncoderLayer is built without batch_first=True but gets (batch, window, dim), so it attends across the proteins of the batch instead of along the window; no error, the prediction of a window depends on the other samples.
"""Secondary-structure (helix / strand / coil) prediction from residue windows."""
from typing import Dict

import torch
from torch import nn
import torch.nn.functional as F

AMINO_ACIDS = 21  # 20 + unknown
STATES = 3


class SecondaryStructureNet(nn.Module):
    """Predicts the state of the central residue of an odd-sized window.

    Lightning-style module: the trainer calls training_step / validation_step and
    uses the optimizer from configure_optimizers.
    """

    def __init__(self, window: int = 17, dim: int = 48, heads: int = 4, depth: int = 2, lr: float = 1e-3):
        super().__init__()
        if window % 2 == 0:
            raise ValueError("window must be odd")
        self.center = window // 2
        self.lr = lr
        self.residue = nn.Embedding(AMINO_ACIDS, dim)
        self.profile = nn.Linear(20, dim)  # PSSM columns
        self.offset = nn.Parameter(0.02 * torch.randn(window, dim))
        layer = nn.TransformerEncoderLayer(  # error: DG752
            d_model=dim,
            nhead=heads,
            dim_feedforward=2 * dim,
            dropout=0.1,
            activation="gelu",
        )
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.classify = nn.Linear(dim, STATES)

    def forward(self, residues: torch.Tensor, pssm: torch.Tensor) -> torch.Tensor:
        """residues: (B, W) long, pssm: (B, W, 20) -> logits (B, 3)"""
        h = self.residue(residues) + self.profile(pssm) + self.offset
        h = self.encoder(h)
        return self.classify(h[:, self.center])

    def _loss_and_q3(self, batch: Dict[str, torch.Tensor]):
        logits = self(batch["residues"], batch["pssm"])
        loss = F.cross_entropy(logits, batch["state"])
        q3 = (logits.argmax(dim=-1) == batch["state"]).float().mean()
        return loss, q3

    def training_step(self, batch, batch_idx: int) -> torch.Tensor:
        loss, _ = self._loss_and_q3(batch)
        return loss

    def validation_step(self, batch, batch_idx: int) -> Dict[str, float]:
        with torch.no_grad():
            loss, q3 = self._loss_and_q3(batch)
        return {"val_loss": loss.item(), "val_q3": q3.item()}

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.lr)
