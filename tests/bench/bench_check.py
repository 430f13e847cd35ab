"""``drygrad check`` beside TorchFix on one file, whole processes in turn: ``python tests/bench/bench_check.py``."""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from make_training_file import training_file

BIN = Path(sys.executable).parent


def seconds(command: Sequence[str]) -> tuple[float, float]:
    """Run a command; return its wall-clock and its processor time."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, check=False)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):  # 1: there are findings
        raise SystemExit(f"{command[0]} failed:\n{done.stderr.decode(errors='replace')}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure, and print the medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    peer = shutil.which("torchfix", path=BIN) or shutil.which("torchfix")
    if peer is None:
        raise SystemExit("TorchFix is not installed: pip install torchfix")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed has its bytecode beside it
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.py"
        path.write_text(training_file(options.lines))
        commands = {"drygrad": [sys.executable, "-m", "drygrad", "check", str(path)], "TorchFix": [peer, str(path)]}
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for _ in range(options.rounds):
            for name, command in commands.items():
                taken[name].append(seconds(command))
    medians = {name: tuple(map(statistics.median, zip(*times, strict=True))) for name, times in taken.items()}
    print(f"{options.lines} lines, median of {options.rounds}      wall s    CPU s")
    for name, (wall, cpu) in medians.items():
        print(f"{name:30}{wall:9.2f}{cpu:9.2f}")
    ratios = (slow / fast for slow, fast in zip(medians["TorchFix"], medians["drygrad"], strict=True))
    print(f"{'TorchFix / drygrad':30}" + "".join(f"{ratio:8.1f}x" for ratio in ratios))


if __name__ == "__main__":
    main()
