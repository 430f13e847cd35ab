"""Examines a relation, or calls a target, in this process, as a child of the worker would."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import torch
from instrument_harness import IMPORTS

from drygrad.worker.experiments.bench import Bench
from drygrad.worker.experiments.relation import NotTried, Relation
from drygrad.worker.lines import Lines
from drygrad.worker.resolving import resolve
from drygrad.worker.run import Fault, Instrument, Run
from drygrad.worker.watch import watching

SECONDS = 600.0
"""Enough for each experiment to come to its end."""


def examined(folder: Path, relation: type[Relation], program: str, given: str, **asked: Any) -> list[Fault] | str:
    """Return the faults that a relation finds in ``f``, called with these arguments; why it was not tried, else.

    ``f`` may be a method of the object that the argument ``self`` is.
    """
    run, names = _prepared(folder, program, experiments={"seconds": SECONDS, **asked})

    def give() -> tuple[Any, list[Any]]:
        arguments = _given(names, given)
        return arguments.pop("self", None), [({"name": name}, value) for name, value in arguments.items()]

    execution: Any = SimpleNamespace(
        run=run,
        plan=run.plan,
        resolved=resolve,
        hooks=SimpleNamespace(last_return=None),
        loops=SimpleNamespace(limit=3),
        instruments=[],
    )
    try:
        with watching(run, []):
            return [*relation().examine(Bench(execution, names, "f", give))]
    except NotTried as reason:
        return str(reason)
    finally:
        assert run.failures == []


def line_of(program: str, fault: Fault) -> str:
    """Return the line of a program that a fault stands at."""
    assert fault.at is not None
    return (IMPORTS + dedent(program)).splitlines()[fault.at.line - 1].strip()


def called(folder: Path, program: str, given: str, *kinds: type[Instrument], target: str = "f") -> Run:
    """Call ``f``, or a method of the object that the argument ``self`` is, under instruments, as a run does."""
    run, names = _prepared(folder, program, target=target)
    arguments = _given(names, given)
    instruments = [kind(run) for kind in kinds]
    with watching(run, instruments):
        for instrument in instruments:
            instrument.start()
        run.tell("begins", names, dict(arguments))
        owner = arguments.pop("self", None)
        function = owner.f if owner is not None else names["f"]
        run.tell("returned", function(**arguments), None)
    for instrument in instruments:
        instrument.finish()
    assert run.failures == []
    return run


def _prepared(folder: Path, program: str, **plan: Any) -> tuple[Run, dict[str, Any]]:
    path, text = str(folder / "program.py"), IMPORTS + dedent(program)
    run = Run({"path": path, "device": "cpu", **plan}, Lines(path))
    run.lines.give_source(path, text)
    names: dict[str, Any] = {"__name__": "program"}
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
    exec(compile(text, path, "exec"), names)
    return run, names


def _given(names: dict[str, Any], given: str) -> dict[str, Any]:
    return eval(f"dict({given})", names)
