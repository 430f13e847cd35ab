"""A fix applied to a copy of the text: the plan that runs it, and where the lines have gone."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from drygrad.dryrun.inventions import was_found, written
from drygrad.dryrun.plan import Experiments, Missing, Plan
from drygrad.dryrun.planning import plan_runs
from drygrad.dryrun.result import Result
from drygrad.dryrun.targets import target_named
from drygrad.fixing import apply_edits
from drygrad.model import Edit, Fix, Position
from drygrad.static.source import Source, SourceError
from drygrad.static.statements import statement_at


@dataclass(frozen=True)
class Trial:
    """A fix, the text that it makes, and the plan of the same run on that text."""

    fix: Fix
    source: Source
    plan: Plan

    @classmethod
    def of(cls, plan: Plan, result: Result, fix: Fix, *, anew: bool = False) -> Trial | None:
        """Return the trial of a fix; None where it changes other files, or its text cannot be run as before.

        ``anew``: inputs that were searched are searched once more, for the repaired text.
        """
        if not fix.edits or any(edit.path is not None for edit in fix.edits):
            return None
        source = Source(apply_edits(plan.source, fix.edits))
        try:
            again = _same_run(plan, result, source, anew=anew)
        except SourceError:
            return None
        return cls(fix, source, again) if again is not None and source.text != plan.source.text else None

    def line(self, old: int, before: Source) -> int:
        """Return the number that a line of the text before has now."""
        return old + _growth(self.fix.edits, Position(old, len(before.indentation(old))))

    def statements(self) -> Iterator[ast.stmt]:
        """Yield the statements that the fix has written or changed."""
        for edit in self.fix.edits:
            if edit.new_text.strip():
                yield from self._in_lines(*self._lines(edit))

    def _lines(self, edit: Edit) -> tuple[int, int]:
        """Return the first and the last line of what an edit has written."""
        text = edit.new_text
        start = edit.span.start.line + _growth(self.fix.edits, edit.span.start, edit)
        first = start + text[: len(text) - len(text.lstrip())].count("\n")
        return first, first + text.strip().count("\n")

    def _in_lines(self, first: int, last: int) -> Iterator[ast.stmt]:
        """Yield the statements that begin in these lines, and the one that the first stands in."""
        around = statement_at(self.source.tree, first)
        if isinstance(around, ast.stmt):
            yield around
        for node in ast.walk(self.source.tree):
            if isinstance(node, ast.stmt) and first <= node.lineno <= last and node is not around:
                yield node


def _growth(edits: Iterable[Edit], position: Position, but: Edit | None = None) -> int:
    """Return how many lines the edits before a position of the old text add."""
    before = (edit for edit in edits if edit is not but and edit.span.end <= position)
    return sum(edit.new_text.count("\n") - (edit.span.end.line - edit.span.start.line) for edit in before)


def compared(plan: Plan, result: Result) -> Plan:
    """Return the plan of the same run of the same text, to be compared with runs of repaired ones."""
    again = _same_run(plan, result, plan.source, anew=False)
    return again or replace(plan, options=replace(plan.options, compare=True))


def experimented(plan: Plan, result: Result, experiments: Experiments) -> Plan:
    """Return the plan that tries relations between calls of the target with the inputs that a run has had."""
    again = compared(replace(plan, options=replace(plan.options, experiments=experiments)), result)
    return replace(again, options=replace(again.options, compare=plan.options.compare))


def with_inputs(plan: Plan, inputs: str) -> Plan | None:
    """Return the plan of the same target, with other inputs."""
    if plan.within is not None:
        again = with_inputs(plan.within, inputs)
        return replace(plan, within=again, options=again.options) if again is not None else None
    planned = plan_runs(plan.source, plan.path, plan.target, replace(plan.options, inputs=inputs, compare=True))
    return None if isinstance(planned, Missing) or not planned else planned[0]


def _same_run(plan: Plan, result: Result, source: Source, *, anew: bool) -> Plan | None:
    """Return the plan on another text of the run that a plan describes; among several, the one at the same place.

    Inputs that were searched are given as they were found; where the code itself ended the search, it goes on.
    """
    if plan.within is not None:
        again = _same_run(plan.within, result, plan.within.source, anew=anew)
        return replace(plan, source=source, within=again, options=again.options) if again is not None else None
    target = target_named(source, plan.target.qualname)
    known = was_found(result) and not anew
    options = replace(plan.options, compare=True, inputs=written(result) if known else plan.options.inputs)
    planned = plan_runs(source, plan.path, target, options) if target else []
    if isinstance(planned, Missing) or not planned:
        return None
    before = plan_runs(plan.source, plan.path, plan.target, plan.options)
    keys = [] if isinstance(before, Missing) else [each.key for each in before]
    place = keys.index(plan.key) if plan.key in keys else 0
    return planned[place] if place < len(planned) else None
