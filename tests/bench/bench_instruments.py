"""What the instruments cost: steps on the plain CPU, and on the simulated device with what watches them.

``python tests/bench/bench_instruments.py`` prints a row for each: nothing watching, a mode without instruments, all
of them; with ``--each`` also each instrument alone. All is measured in turns in one process that is set up as a worker
is, so that a busy machine slows all of them alike. Processor time counts what the machine's other users cannot take.
The last row is the step on the CPU in a process of its own, with everything as torch has it.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "analyzers"), str(ROOT / "server")]

Step = Callable[[], object]


class Times(NamedTuple):
    """Milliseconds of one step: on the wall's clock, and those that the processor spent on it."""

    wall: float
    processor: float


class Setting(NamedTuple):
    """A device, and the instruments at work; None leaves out what tells them of operations, too."""

    device: str
    instruments: list[str] | None = None


def programs(device: str) -> dict[str, tuple[str, Callable[[], Step]]]:
    """Return the programs to measure: the file of each, and what makes its step."""
    import gpt_step  # noqa: PLC0415 - they import torch, whose surroundings have to be set up first
    import small_operations  # noqa: PLC0415

    return {
        "GPT, batch 8": (gpt_step.__file__, lambda: gpt_step.training_step(device, 8)),
        "GPT of 10 million parameters": (
            gpt_step.__file__,
            lambda: gpt_step.training_step(device, 8, gpt_step.CHARACTERS),
        ),
        "LSTM cell in Python": (small_operations.__file__, lambda: small_operations.lstm_step(device)),
        "2000 tiny operations": (small_operations.__file__, lambda: small_operations.tiny_operations(device)),
    }


def timed(step: Step) -> Times:
    """Take a step."""
    wall, processor = time.perf_counter(), time.process_time()
    step()
    return Times((time.perf_counter() - wall) * 1e3, (time.process_time() - processor) * 1e3)


@contextmanager
def watched(path: str, setting: Setting) -> Generator[None]:
    """Let fresh instruments watch the block, and nothing of them stay."""
    from drygrad.worker.instruments import all_instruments  # noqa: PLC0415 - as above
    from drygrad.worker.lines import Lines  # noqa: PLC0415
    from drygrad.worker.run import Run  # noqa: PLC0415
    from drygrad.worker.watch import watching  # noqa: PLC0415

    run = Run({"device": setting.device, "path": path}, Lines(path))
    run.lines.give_source(path, Path(path).read_text())
    instruments = [made(run) for name, made in all_instruments().items() if name in (setting.instruments or [])]
    for instrument in instruments:
        instrument.start()
    with nullcontext() if setting.instruments is None else watching(run, instruments):
        yield
    for instrument in instruments:
        instrument.finish()


def measured(name: str, settings: dict[str, Setting], rounds: int) -> dict[str, Times]:
    """Return the medians of a program's step under each setting, taken in turns, each after a step to warm up."""
    steps: dict[str, Step] = {}
    path = ""
    for device, torch_name in (("cpu", "cpu"), ("sim", "cuda")):
        if any(setting.device == device for setting in settings.values()):
            path, make = programs(torch_name)[name]
            steps[device] = make()
    taken: dict[str, list[Times]] = {title: [] for title in settings}
    for _ in range(rounds):
        for title, setting in settings.items():
            step = steps[setting.device]
            with watched(path, setting):
                step()
                taken[title].append(timed(step))
    return {title: Times(*map(statistics.median, zip(*times, strict=True))) for title, times in taken.items()}


def apart(name: str, rounds: int, threads: int | None) -> Times:
    """Measure the plain step in a process of its own."""
    command = [sys.executable, __file__, "--plain", name, "--rounds", str(rounds)]
    command += ["--threads", str(threads)] if threads else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return Times(*map(float, done.stdout.split()))


def all_settings(*, each: bool) -> dict[str, Setting]:
    """Return what to measure; the first is what the others are compared with."""
    from drygrad.worker.instruments import all_instruments  # noqa: PLC0415 - it imports torch

    every = list(all_instruments())
    settings = {"plain CPU": Setting("cpu"), "sim": Setting("sim"), "sim, watched": Setting("sim", [])}
    settings["sim, all instruments"] = Setting("sim", every)
    if each:
        settings |= {f"sim, {name}": Setting("sim", [name]) for name in every}
    return settings


def prepare(threads: int | None) -> None:
    """Set this process up as a worker does."""
    from drygrad.worker.program import import_torch  # noqa: PLC0415 - the plain step does without

    why = import_torch()
    if why is not None:
        raise SystemExit(why)
    import torch  # noqa: PLC0415 - as in programs

    from drygrad.worker.devices import sim  # noqa: PLC0415

    if threads:
        torch.set_num_threads(threads)
    sim.enable()
    gc.collect()
    gc.freeze()


def plain(name: str, rounds: int, threads: int | None) -> None:
    """Print the times of the plain step, with everything as torch has it."""
    import torch  # noqa: PLC0415 - as in programs

    if threads:
        torch.set_num_threads(threads)
    times = measured(name, {"plain": Setting("cpu")}, rounds)["plain"]
    print(*times)


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, help="of torch; as many as it takes by itself")
    parser.add_argument("--each", action="store_true", help="each instrument alone, too")
    parser.add_argument("--only", default="", help="programs with this in their name")
    parser.add_argument("--plain", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.plain:
        plain(options.plain, options.rounds, options.threads)
        return
    prepare(options.threads)
    for name in programs("cpu"):
        if options.only in name:
            found = measured(name, all_settings(each=options.each), options.rounds)
            base = found["plain CPU"]
            found["plain CPU, apart"] = apart(name, options.rounds, options.threads)
            print(f"{name:32}{'wall ms':>9}{'ratio':>8}{'processor ms':>15}{'ratio':>8}")
            for title, times in found.items():
                ratios = [time / of for time, of in zip(times, base, strict=True)]
                print(f"{title:32}{times.wall:9.1f}{ratios[0]:8.2f}{times.processor:15.1f}{ratios[1]:8.2f}")


if __name__ == "__main__":
    main()
