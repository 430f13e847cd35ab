"""A weighted sampler that has a weight for each class, not for each sample, is reported."""

from __future__ import annotations

from pathlib import Path

from instrument_harness import said, the_fault, watch

from drygrad.worker.instruments.samplers import Samplers

SETUP = """
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler
data = TensorDataset(torch.arange(8))
"""


def test_weights_of_classes_are_reported_where_the_sampler_is_made(tmp_path: Path) -> None:
    program = SETUP + "sampler = WeightedRandomSampler([0.1, 0.9], 8)\nDataLoader(data, sampler=sampler)\n"
    the_fault(watch(tmp_path, program, Samplers), "DG806", 4, "only the first 2 are ever drawn")


def test_weights_of_samples_are_not(tmp_path: Path) -> None:
    program = SETUP + "DataLoader(data, sampler=WeightedRandomSampler([0.1] * 8, 4))\nDataLoader(data)\n"
    assert said(watch(tmp_path, program, Samplers)) == []
