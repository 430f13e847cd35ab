"""What the instruments cost: training steps of a small GPT on the plain CPU, and on the simulated device with them.

``python tests/bench/bench_instruments.py`` prints a row for each: nothing watching, each instrument alone, all.
The measurements are taken in turn, so that a busy machine slows all of them alike.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("gpt_step.py")


def measure(device: str, names: list[str] | None, steps: int) -> float:
    """Return the median seconds of a step; ``names`` are the instruments, None leaves the dispatch mode out, too."""
    command = [sys.executable, __file__, "--worker", json.dumps([device, names, steps])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return float(done.stdout.splitlines()[-1])


def worker(device: str, names: list[str] | None, steps: int) -> float:
    """Take the steps in this process."""
    sys.path[:0] = [str(ROOT / "analyzers"), str(ROOT / "server")]
    import torch  # noqa: PLC0415 - the parent process does without

    from drygrad.worker.instruments import all_instruments  # noqa: PLC0415
    from drygrad.worker.lines import Lines  # noqa: PLC0415
    from drygrad.worker.run import Run  # noqa: PLC0415
    from drygrad.worker.watch import watching  # noqa: PLC0415

    if device == "sim":
        from drygrad.worker.devices import sim  # noqa: PLC0415

        sim.enable()
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
    run = Run({"device": device, "path": str(PROGRAM)}, Lines(str(PROGRAM)))
    run.lines.give_source(str(PROGRAM), PROGRAM.read_text())
    instruments = [made(run) for name, made in all_instruments().items() if name in (names or [])]
    namespace: dict[str, Any] = {"DEVICE": "cuda" if device == "sim" else "cpu"}
    exec(compile(PROGRAM.read_text(), str(PROGRAM), "exec"), namespace)
    for instrument in instruments:
        instrument.start()
    taken: list[float] = []
    with nullcontext() if names is None else watching(run, instruments):
        for _ in range(steps):
            started = perf_counter()
            namespace["step"]()
            taken.append(perf_counter() - started)
    return statistics.median(taken[2:])


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--each", action="store_true", help="each instrument alone, too")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(worker(*json.loads(options.worker)))
        return
    folder = ROOT / "analyzers/drygrad/worker/instruments"
    every = sorted(path.stem for path in folder.glob("[a-z]*.py"))
    settings: dict[str, tuple[str, list[str] | None]] = {"plain CPU": ("cpu", None), "sim": ("sim", None)}
    settings |= {"sim, watched": ("sim", []), "sim, all instruments": ("sim", every)}
    if options.each:
        settings |= {f"sim, {name}": ("sim", [name]) for name in every}
    taken: dict[str, list[float]] = {name: [] for name in settings}
    for _ in range(options.rounds):
        for name, (device, names) in settings.items():
            taken[name].append(measure(device, names, options.steps))
    plain = min(taken["plain CPU"])
    print(f"{'best median of a step':32}{'ms':>8}{'ratio':>8}")
    for name, times in taken.items():
        print(f"{name:32}{min(times) * 1000:8.1f}{min(times) / plain:7.2f}x")


if __name__ == "__main__":
    main()
