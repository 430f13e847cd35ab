"""Runs a program in this process under chosen instruments, as a child of the worker would."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import torch

from drygrad.dryrun import failures
from drygrad.worker.lines import Lines
from drygrad.worker.run import Fault, Instrument, Run
from drygrad.worker.watch import watching

IMPORTS = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
LEAF = "w = torch.tensor([1.0, 2.0, 3.0, 0.0], requires_grad=True)\n"
"""How many programs begin."""
_BEFORE = IMPORTS.count("\n")


def watch(folder: Path, program: str, *kinds: type[Instrument], device: str = "cpu", **plan: Any) -> Run:
    """Execute a program that may use torch, nn and F (line 1 is the first after a line that begins it)."""
    path, text = str(folder / "program.py"), IMPORTS + dedent(program)
    run = Run({"device": device, "path": path, **plan}, Lines(path))
    run.lines.give_source(path, text)
    instruments = [kind(run) for kind in kinds]
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
    try:
        with watching(run, instruments):
            for instrument in instruments:
                instrument.start()
            exec(compile(text, path, "exec"), {"__name__": "__main__"})
    except Exception as error:  # noqa: BLE001, any error of the program's is what the instruments explain
        run.result["error"] = error
        place = run.lines.place_of_error(error)
        for fault in filter(None, (instrument.explain(error, place) for instrument in instruments)):
            run.report(fault)
    for instrument in instruments:
        instrument.finish()
    failures.record({"instrument_failures": run.failures})
    return run


def spots(run: Run) -> list[tuple[str, int | None]]:
    """Return code and line of each fault, as the program counts its lines."""
    return [(fault.code, fault.at.line - _BEFORE if fault.at else None) for fault in run.faults]


def related(fault: Fault) -> dict[str, int]:
    """Return the lines of a fault's related places by their sentences."""
    return {message: place.line - _BEFORE for message, place in fault.related}


def said(run: Run) -> list[tuple[str, str]]:
    """Return code and sentence of each fault."""
    return [(fault.code, fault.message) for fault in run.faults]


def the_fault(run: Run, code: str, line: int, sentence: str) -> Fault:
    """Return the only fault, which is this one."""
    assert spots(run) == [(code, line)]
    assert sentence in run.faults[0].message
    return run.faults[0]
