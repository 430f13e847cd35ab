"""What a dry run costs where operations are small: processor time of whole programs, run by drygrad and by Python.

``python tests/bench/bench_small_operations.py [--rounds N] [--only NAME]`` runs each program of ``small_programs.py``
in a plain process, and by a worker on the CPU and on the simulated device, with all its instruments and on one thread.
The ratio of the medians is the figure. Every loop runs to its end: nothing here is gained by ending one early.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / name) for name in ("tests/support", "analyzers", "server")]

from small_programs import PROGRAMS  # noqa: E402 - pyright and the worker find what they need as this does
from worker_client import WorkerClient, argument, plan  # noqa: E402

DEVICES = {"cpu": "cpu", "sim": "cuda"}
"""The devices of a run, and torch's name of each."""


def plain(name: str) -> float:
    """Return the processor seconds that a program takes in a process of its own."""
    command = [sys.executable, str(HERE / "small_programs.py"), name]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def watched(worker: WorkerClient, name: str, device: str) -> float:
    """Return the processor seconds that a program takes in a dry run."""
    path = HERE / "small_programs.py"
    text = path.read_text() + "\ntorch.set_num_threads(1)\n"
    given = argument(repr(DEVICES[device]), "device")
    request = plan(HERE, text, name, path=str(path), root=str(HERE), device=device, arguments=[given])
    result = worker.run({**request, "timeout": 500.0, "loop_limit": 1000})
    if result["outcome"] != "passed" or result["instrument_failures"]:
        raise SystemExit(f"{name} on {device}: {result['outcome']}, {result['notes']}")
    return float(result["output"]["text"].split()[-1])


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="programs with this in their name")
    options = parser.parse_args()
    print(f"{'processor seconds':20}{'plain':>8}{'cpu':>8}{'ratio':>8}{'sim':>8}{'ratio':>8}")
    with WorkerClient() as worker:
        worker.receive("ready")
        for name in PROGRAMS:
            if options.only in name:
                taken: dict[str, list[float]] = {"plain": [], "cpu": [], "sim": []}
                for _ in range(options.rounds):
                    taken["plain"].append(plain(name))
                    for device in DEVICES:
                        taken[device].append(watched(worker, name, device))
                base, cpu, sim = (statistics.median(times) for times in taken.values())
                print(f"{name:20}{base:8.3f}{cpu:8.3f}{cpu / base:8.1f}{sim:8.3f}{sim / base:8.1f}", flush=True)


if __name__ == "__main__":
    main()
