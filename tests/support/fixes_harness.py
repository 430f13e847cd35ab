"""What is proposed for a fault of a given text, without a worker."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from plan_harness import PATH, source_of

from drygrad.dryrun.fixes import Candidates
from drygrad.dryrun.merge import Record
from drygrad.dryrun.plan import Plan, RunOptions
from drygrad.dryrun.result import ErrorInUserCode, Fault, Place, Result, Shape
from drygrad.dryrun.targets import target_named
from drygrad.fixing import apply_edits
from drygrad.model import Finding, Span
from drygrad.settings import Settings
from drygrad.static.source import Source

IMPORTS = "import torch\nimport torch.nn as nn\n"


def proposed(
    program: str,
    code: str,
    at: str,
    facts: Mapping[str, Any] | None = None,
    *,
    message: str = "it fails",
    related: Mapping[str, int] | None = None,
    stack: tuple[int, ...] = (),
    raised: str | None = None,
    shapes: Collection[str] = (),
    sizes: Mapping[str, tuple[int, ...]] | None = None,
) -> dict[str, str]:
    """Return what fixes change by their titles; ``at`` is the culprit's text, ``raised`` that of the raising line.

    ``shapes`` are the names that the run has seen as tensors, ``sizes`` such with their sizes.
    """
    source = source_of(IMPORTS + program)
    start = source.text.index(at)
    span = Span(source.position(start), source.position(start + len(at)))
    place = Place(str(PATH), span.start.line, span.start.column, span.end.line, span.end.column)
    explained = tuple((words, Place(str(PATH), line)) for words, line in (related or {}).items())
    fault = Fault(code, message, place, related=explained, facts=facts or {})
    line = source.position(source.text.index(raised)).line if raised else span.start.line
    error = ErrorInUserCode(
        "RuntimeError", message, replace(place, line=line), tuple(Place(str(PATH), line) for line in stack)
    )
    known = {**dict.fromkeys(shapes, (2,)), **(sizes or {})}
    seen = tuple(Shape(1, name, size, "float32", "cpu") for name, size in known.items())
    result = Result("failed", faults=(fault,), error=error, shapes=seen)
    finding = Finding(code, "fault", message, "error", span, witness="dry-run")
    target = target_named(source, None)
    assert target is not None
    record = Record("run", Plan(source, PATH, target, None, (), None, RunOptions()), result, (finding,))
    found = Candidates(record, (), Settings()).of(finding)
    texts = {fix.title: apply_edits(source, fix.edits) for fix in found}
    for text in texts.values():
        ast.parse(text)
    return {title: _changed(source, text) for title, text in texts.items()}


def _changed(before: Source, after: str) -> str:
    """Return the lines that are new."""
    old = before.text.splitlines()
    return "\n".join(line.strip() for line in after.splitlines() if line not in old)
