"""Settings shared by the other files."""
from dataclasses import dataclass

import torch


@dataclass
class Config:
    n_users: int = 30
    n_items: int = 40
    dim: int = 8
    batch_size: int = 128
    epochs: int = 24
    lr: float = 5e-2
    device: str = "cuda" if torch.cuda.is_available() else "cpu"
