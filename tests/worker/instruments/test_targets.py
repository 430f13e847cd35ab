"""Targets that cannot be reached are reported with their values; others are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from instrument_harness import said, spots, watch

from drygrad.worker.instruments.memory import Memory
from drygrad.worker.instruments.targets import Targets

SETUP = """\
x, signs, bits = torch.randn(8, 3), torch.tensor([1.0, -1.0] * 4), torch.tensor([0.0, 1.0] * 4)
a, b = nn.Linear(3, 4)(x), nn.Linear(3, 4)(x)
"""
LINE = SETUP.count("\n") + 1


@pytest.mark.parametrize(
    "program",
    [
        "F.binary_cross_entropy_with_logits(a[:, 0], signs)",
        "nn.BCEWithLogitsLoss()(a[:, 0], 255 * bits)",
        "F.cosine_embedding_loss(a, b, bits)",
        "nn.CosineEmbeddingLoss(margin=0.2)(a, b, bits)",
        "F.margin_ranking_loss(a[:, 0], b[:, 0], bits)",
        "nn.HingeEmbeddingLoss()(a[:, 0], bits)",
        "F.mse_loss(a.sigmoid(), x.repeat(1, 2)[:, :4])",
        "nn.MSELoss()(torch.tanh(a), 20 + torch.rand(8, 4))",
        "F.smooth_l1_loss(F.relu(a)[:, 0], signs)",
    ],
)
def test_targets_that_cannot_be_reached(tmp_path: Path, program: str) -> None:
    assert spots(watch(tmp_path, SETUP + program, Memory, Targets)) == [("DG329", LINE)]


@pytest.mark.parametrize(
    "program",
    [
        "F.binary_cross_entropy_with_logits(a[:, 0], bits)",
        "F.cosine_embedding_loss(a, b, signs)",
        "nn.MarginRankingLoss()(a[:, 0], b[:, 0], signs)",
        "F.mse_loss(a.sigmoid()[:, 0], bits)",
        "F.mse_loss(10 * a.sigmoid(), 5 + x.repeat(1, 2)[:, :4])",
        "F.mse_loss(torch.tanh(a)[:, 0], signs)",
        "F.mse_loss(a, x.repeat(1, 2)[:, :4])",
        "F.mse_loss(a.relu(), b)",
    ],
)
def test_targets_within_reach(tmp_path: Path, program: str) -> None:
    assert said(watch(tmp_path, SETUP + program, Memory, Targets)) == []
