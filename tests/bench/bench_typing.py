"""Typing latency beside the floor, in one run: ``python tests/bench/bench_typing.py [--lines N] [--memory N]``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from lsp_bench import Subject, Times, measure, measure_memory, median, p95
from make_training_file import training_file

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MARK = "wrong_loss = F.cross_entropy(F.softmax(torch.randn(8, 4), dim=1), torch.zeros(8, dtype=torch.long))"
SERVER = [sys.executable, "-m", "drygrad", "server", "--log-level", "error"]

FLOOR = Subject("floor", [sys.executable, str(HERE / "floor_server.py")], "not_defined_anywhere")
BARE = Subject("drygrad, no debounce", SERVER, MARK)
USUAL = Subject("drygrad, debounce 120", SERVER, MARK, debounce=120)

Figure = tuple[str, Callable[[Times], float], float]
FIGURES: Sequence[Figure] = (
    ("edit, median ms", lambda t: median(t.edit), 1000),
    ("edit, p95 ms", lambda t: p95(t.edit), 1000),
    ("edit, CPU ms", lambda t: median(t.edit_cpu), 1000),
    ("burst of 20, ms", lambda t: median(t.burst), 1000),
    ("results a burst", lambda t: median(t.burst_results), 1),
    ("hover, ms", lambda t: median(t.hover), 1000),
    ("code action, ms", lambda t: median(t.action), 1000),
    ("cold start, ms", lambda t: median(t.cold), 1000),
    ("shutdown, ms", lambda t: median(t.stop), 1000),
    ("memory, MiB", lambda t: max(t.rss), 1),
)


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--edits", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", type=int, default=0, metavar="EDITS", help="also follow the memory over many edits")
    return parser.parse_args()


def main() -> None:
    """Measure in turns, so that all servers meet the same neighbours, and print a table."""
    arguments = parsed()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed has its bytecode beside it
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "server"), str(ROOT / "analyzers")])
    text = training_file(arguments.lines)
    subjects = (FLOOR, BARE, USUAL)
    times = {subject.name: Times() for subject in subjects}
    for _ in range(arguments.rounds):
        for subject in subjects:
            times[subject.name].add(measure(subject, text, edits=arguments.edits))
    print(f"{arguments.lines} lines, {arguments.rounds} rounds of {arguments.edits} edits\n")
    print(f"{'':18}" + "".join(f"{subject.name:>30}" for subject in subjects))
    for name, figure, scale in FIGURES:
        values = [scale * figure(times[subject.name]) for subject in subjects]
        cells = [f"{value:.1f} ({value / values[0]:.2f} x)" if values[0] else f"{value:.1f}" for value in values]
        print(f"{name:18}" + "".join(f"{cell:>30}" for cell in cells))
    if arguments.memory:
        growth = measure_memory(BARE, text, arguments.memory)
        print(f"\nmemory over {arguments.memory} edits, MiB: " + ", ".join(f"{value:.1f}" for value in growth))


if __name__ == "__main__":
    main()
