"""Examines a relation in this process, on a program that a child of the worker would have run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from instrument_harness import IMPORTS

from drygrad.worker.experiments.bench import Bench
from drygrad.worker.experiments.relation import NotTried, Relation
from drygrad.worker.lines import Lines
from drygrad.worker.run import Fault, Run
from drygrad.worker.watch import watching

SECONDS = 600.0
"""Enough for each experiment to come to its end."""


def examined(folder: Path, relation: type[Relation], program: str, given: str, **asked: Any) -> list[Fault] | str:
    """Return the faults that a relation finds in ``f``, called with these arguments; why it was not tried, else.

    ``f`` may be a method of the object that the argument ``self`` is.
    """
    path, text = str(folder / "program.py"), IMPORTS + program
    plan: dict[str, Any] = {"path": path, "device": "cpu", "experiments": {"seconds": SECONDS, **asked}}
    run = Run(plan, Lines(path))
    run.lines.give_source(path, text)
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(text, path, "exec"), names)

    def give() -> tuple[Any, list[Any]]:
        arguments: dict[str, Any] = eval(f"dict({given})", names)
        return arguments.pop("self", None), [({"name": name}, value) for name, value in arguments.items()]

    execution: Any = SimpleNamespace(
        run=run, plan=plan, hooks=SimpleNamespace(last_return=None), loops=SimpleNamespace(limit=3), instruments=[]
    )
    try:
        with watching(run, []):
            return [*relation().examine(Bench(execution, names, "f", give))]
    except NotTried as reason:
        return str(reason)
    finally:
        assert run.failures == []
