"""What the interpretation of a file learns from answers: of what class the objects are that an imported name makes."""

from __future__ import annotations

from collections.abc import Mapping

from drygrad.static.facts.canonical import canonical
from drygrad.static.lookup.answers import Answer


def ancestry_of(answers: Mapping[str, Answer]) -> dict[str, tuple[str, ...]]:
    """Return, for each name, the full names of the class that calling it gives and of the ancestors of that class.

    Empty where calling it gives nothing that the file could use to know.
    """
    return {name: _ancestry(answer) for name, answer in answers.items()}


def _ancestry(answer: Answer) -> tuple[str, ...]:
    made = {"class": answer.full_name, "function": answer.returns}.get(answer.kind)
    return tuple(map(canonical, (made, *answer.bases))) if made else ()
