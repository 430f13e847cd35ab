"""A fault of what a loader delivers stands where the dataset makes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from instrument_harness import related, spots, watch

from drygrad.worker.instruments.index_ranges import IndexRanges
from drygrad.worker.instruments.memory import Memory
from drygrad.worker.instruments.mismatches import Mismatches
from drygrad.worker.instruments.samples import Samples

DATASET = """\
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset
class Data(Dataset):
    def __init__(self, rows, other=None):
        self.rows = rows
        self.other = other
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, i):
        row = self.rows[i]
        return {sample}
model = nn.Linear(2, 3)
rows = torch.rand(6, 3)
{data}
for batch in DataLoader(data, batch_size=3):
    {use}
"""
_ATTRIBUTE, _SAMPLE, _DATA, _USE = 5, 10, 13, 15


def program(sample: str, use: str, data: str = "data = Data(rows)") -> str:
    return DATASET.format(sample=sample, data=data, use=use)


ENTROPY = "F.cross_entropy(model(batch[0]), batch[1])"
DTYPES = {
    program("row[:2], row[2]", ENTROPY): ("DG309", _SAMPLE),
    program("row[:2], row[2]", ENTROPY, "data = Subset(Data(rows), [3, 4, 5])"): ("DG309", _SAMPLE),
    program("row[:2], row[2]", "y = batch[1].double().flatten()\n    F.cross_entropy(model(batch[0]), y)"): (
        "DG309",
        _USE,
    ),
    program("{'x': row[:2], 'y': float(i)}", "F.cross_entropy(model(batch['x']), batch['y'])"): ("DG309", _SAMPLE),
    program("row[:2], self.other[i]", ENTROPY, "data = Data(rows, [0.0, 1.0] * 3)"): ("DG309", _ATTRIBUTE),
    # what a line has made so for the labels alone is changed there
    program("row[:2], self.other[i]", ENTROPY, "data = Data(rows, torch.ones(6, dtype=torch.int64).float())"): (
        "DG309",
        _DATA,
    ),
    program("", ENTROPY, "x, y = rows[:, :2], rows[:, 2]\ndata = TensorDataset(x, y)"): ("DG309", _DATA),
    program("row[:2], i % 2", "F.binary_cross_entropy_with_logits(model(batch[0])[:, 0], batch[1])"): (
        "DG310",
        _SAMPLE,
    ),
}

GAPS = "data = Data(rows, torch.tensor([4, 9, 9, 30, 4, 30]))"
FROM_ONE = "data = Data(rows, torch.tensor([1, 2, 3, 3, 1, 2]))"
RANGES = {
    program("row[:2], self.other[i]", "nn.Embedding(3, 4)(batch[1])", GAPS): ("DG302", _ATTRIBUTE),
    program("row[:2], self.other[i] + 1", "nn.Embedding(3, 4)(batch[1])", GAPS): ("DG302", _USE),
    program("row[:2], self.other[i]", "nn.Embedding(4, 4)(batch[1])", GAPS): ("DG302", _USE),
    program("row[:2], self.other[i]", ENTROPY, FROM_ONE): ("DG302", _ATTRIBUTE),
    program("row[:2], int(self.other[i])", ENTROPY, FROM_ONE): ("DG302", _SAMPLE),
    program("row[:2], self.other[i] + 7", ENTROPY, FROM_ONE): ("DG302", _USE),
}


@pytest.mark.parametrize("text", [*DTYPES, *RANGES])
def test_the_line_that_makes_the_sample(tmp_path: Path, text: str) -> None:
    run = watch(tmp_path, text, Memory, Samples, Mismatches, IndexRanges)
    code, line = {**DTYPES, **RANGES}[text]
    assert spots(run) == [(code, line)]
    assert line == _USE or related(run.faults[0])["it fails here"] >= _USE
