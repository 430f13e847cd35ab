"""What experiments cost: those of a network whose call takes some 50 ms, against the run that they follow.

``python tests/bench/bench_experiments.py [RUNS]`` prints how long each relation took, the median from the findings of
the run to the end of all experiments, and how many times the run that is. Two are tried side by side.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from lsp_bench import median, p95

from drygrad.dryrun.merge import Record
from drygrad.dryrun.plan import Missing, RunOptions
from drygrad.dryrun.service import DryRuns, Home
from drygrad.dryrun.targets import target_named
from drygrad.settings import Settings
from drygrad.static.source import Source

BUDGET = 3.0
SECONDS = 30.0
"""What experiments may take here: none is cut short, whatever else the machine does."""
TEXT = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 48, 3, padding=1), nn.BatchNorm2d(48), nn.ReLU())
        self.body = nn.Sequential(nn.Conv2d(48, 48, 3, padding=1), nn.BatchNorm2d(48), nn.ReLU())
        self.attend = nn.MultiheadAttention(48, 4, batch_first=True)
        self.head = nn.Linear(48, 10)

    # dry-run: self=Net(), images=torch.rand(16, 3, 32, 32)
    def forward(self, images):
        features = self.body(self.stem(images))
        tokens = nn.functional.avg_pool2d(features, 4).flatten(2).transpose(1, 2)
        mixed, _ = self.attend(tokens, tokens, tokens)
        return self.head(mixed.mean(dim=1))
"""


async def measured(runs: int, folder: Path) -> tuple[list[float], list[float], Record]:
    """Return how long the runs took, how long their experiments, and the last record."""
    path, source = folder / "net.py", Source(TEXT)
    path.write_text(TEXT)
    target = target_named(source, "Net.forward")
    assert target is not None
    home, options, service = Home(Path(sys.executable), folder), RunOptions(device="sim", root=folder), DryRuns()
    took: list[float] = []
    after: list[float] = []
    record: Record | None = None
    try:
        for number in range(runs + 1):
            begun = time.perf_counter()
            records = await service.dry_run(source, path, target, home, options, Settings())
            assert not isinstance(records, Missing)
            ended = time.perf_counter()
            record = await service.experiment(records[0], home, Settings(), SECONDS)
            if number:  # the first one starts the worker
                took.append(ended - begun)
                after.append(time.perf_counter() - ended)
    finally:
        await service.close()
    assert record is not None
    return took, after, record


def main(runs: int) -> int:
    """Measure; the status is 1 where the median is over the budget."""
    with tempfile.TemporaryDirectory() as folder:
        took, after, record = asyncio.run(measured(runs, Path(folder)))
    result = record.result
    for one in result.tried:
        sys.stdout.write(f"{one.name:28} {one.outcome:10} {one.seconds * 1000:6.0f} ms  {one.why}\n")
    sys.stdout.write(
        f"the run: {result.seconds * 1000:.0f} ms in the worker, median {median(took) * 1000:.0f} ms to its findings; "
        f"{len(result.tried)} experiments: median {median(after):.2f} s, p95 {p95(after):.2f} s over {runs}, "
        f"{median(after) / median(took):.1f} times the run, budget {BUDGET:g} s\n"
    )
    return int(median(after) > BUDGET)


if __name__ == "__main__":
    sys.exit(main(*[int(argument) for argument in sys.argv[1:2]] or [5]))
