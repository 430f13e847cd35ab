"""How a run ended, in the words that the command line and the editor share."""

from __future__ import annotations

from drygrad.dryrun.inputs.conventions import SOURCE, STAND_IN
from drygrad.dryrun.result import Outcome, Result

NOTHING_RAN: frozenset[Outcome] = frozenset(("no-inputs", "blocked", "unsupported", "missing-package"))
"""Outcomes that tell nothing of the code: what was asked for could not be done."""
_UNFINISHED: frozenset[str] = NOTHING_RAN | {"cancelled", "error"}
_GUESSES = frozenset(("search", SOURCE))


def ended(result: Result) -> str:
    """Return the outcome with what it is to be read with: ``passed with guessed inputs on sim, 14 of 20 lines``."""
    if result.outcome in _UNFINISHED:
        return f"{result.outcome}{': ' if result.reason else ''}{result.reason or ''}"
    covered = result.coverage.said() if result.coverage else ""
    return f"{result.outcome}{inputs(result)} on {device(result)}{', ' if covered else ''}{covered}"


def device(result: Result) -> str:
    """Return where the tensors of a run were: what has put none on the GPU has shown nothing of it."""
    return "the CPU" if "cpu" in (result.device, result.tensors_on) else result.device


def inputs(result: Result) -> str:
    """Return what a reader must know of a run's inputs: that they are not the program's own."""
    guessed = " and ".join(_guessed(result))
    return f" with {guessed}" if guessed else ""


def is_guessed(result: Result) -> bool:
    """Say whether inputs were guessed, or something stood in for one."""
    return bool(_guessed(result))


def _guessed(result: Result) -> list[str]:
    sources = {part for given in result.inputs for part in given.source.partition(":")[0].split(", ")}
    return [
        *(["guessed inputs"] if sources & _GUESSES else []),
        *(["stand-ins"] if STAND_IN in sources else []),
    ]
