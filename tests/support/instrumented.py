"""Runs a program in this process with instruments on, as a run's process does."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from drygrad.worker.instruments import all_instruments
from drygrad.worker.lines import Lines
from drygrad.worker.run import Fault, Run
from drygrad.worker.watch import watching

PRELUDE = "import torch; import torch.nn as nn; import torch.nn.functional as F\n"


def instrumented(folder: Path, program: str, names: Iterable[str] | None = None, device: str = "cpu") -> Run:
    """Run a program after a line of imports, with all instruments or those named; an error is explained, or raised."""
    path, text = str(folder / "program.py"), PRELUDE + program
    run = Run({"device": device}, Lines(path))
    run.lines.give_source(path, text)
    kinds = all_instruments()
    instruments = [kinds[name](run) for name in (kinds if names is None else names)]
    for instrument in instruments:
        instrument.start()
    with watching(run, instruments):
        try:
            exec(compile(text, path, "exec"), {"__name__": "__main__"})
        except Exception as error:
            place = run.lines.place_of_error(error)
            explained = [fault for fault in (i.explain(error, place) for i in instruments) if fault is not None]
            if not explained:
                raise
            for fault in explained:
                run.report(fault)
    for instrument in instruments:
        instrument.finish()
    return run


def spots(run: Run) -> list[tuple[str, int | None]]:
    """Return code and line of each fault; line 1 is the program's first, behind the prelude."""
    return [(fault.code, line_of(fault)) for fault in run.faults]


def line_of(fault: Fault) -> int | None:
    """Return the line of a fault's place in the program."""
    return fault.at.line - 1 if fault.at else None


def related(fault: Fault) -> dict[str, Any]:
    """Return the lines of the related places by their sentences."""
    return {message: place.line - 1 for message, place in fault.related}
