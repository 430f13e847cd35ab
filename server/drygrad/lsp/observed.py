"""What runs have observed, at a line or under a name: the texts of hints and hovers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from drygrad.dryrun.result import Input, Result, Shape
from drygrad.lsp.markdown import code, escaped
from drygrad.lsp.run_memory import Outcome, View
from drygrad.lsp.run_words import words_of
from drygrad.model import Position, Span
from drygrad.static.source import Source

_WORD = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")

_TRIED = {"broken": "broken", "held": "held", "not-tried": "not tried"}

_DEF = re.compile(r"\s*(?:async\s+)?def\s")


@dataclass(frozen=True)
class Fact:
    """A sentence about a named value; what is not a name's is in ``after`` alone."""

    before: str = ""
    name: str = ""
    after: str = ""

    def said(self, change: Callable[[str], str]) -> Fact:
        """Return the fact with its text changed."""
        return replace(self, after=change(self.after))

    def text(self, *, markdown: bool) -> str:
        """Return the sentence; nothing in it is taken for Markdown."""
        if not markdown:
            return f"{self.before}{self.name}{self.after}"
        return f"{escaped(self.before)}{code(self.name) if self.name else ''}{escaped(self.after)}"


@dataclass(frozen=True)
class Hint:
    """What stands behind a line (from 1)."""

    line: int
    label: str
    tooltip: str


def hints(view: View) -> Iterator[Hint]:
    """Yield the hints of all lines; where runs differ, the latest counts."""
    lines: dict[int, dict[str, Shape]] = {}
    for shape in view.shapes:
        lines.setdefault(shape.line, {})[shape.name] = shape
    for line, shapes in sorted(lines.items()):
        named = {name: shape for name, shape in shapes.items() if name != "_"} or shapes
        alone = len(named) == 1
        labels = [f"{'' if alone else name}: {_short(shape)}" for name, shape in named.items()]
        yield Hint(line, ", ".join(labels), "\n".join(f"{s.name}: {described(s)}" for s in shapes.values()))


def _short(shape: Shape) -> str:
    return f"{_dtype(shape)} {list(shape.shape)} {shape.device.partition(':')[0]}"


def _dtype(shape: Shape) -> str:
    return shape.dtype.removeprefix("torch.")


def described(shape: Shape) -> str:
    """Return all that was observed of a value."""
    facts = [f"{_dtype(shape)} {list(shape.shape)} on {shape.device}"]
    if shape.low is not None and shape.high is not None:
        facts.append(f"values from {_number(shape.low)} to {_number(shape.high)}")
    if shape.requires_grad:
        facts.append("requires grad")
    return ", ".join(facts)


def _number(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else {math.inf: "Inf", -math.inf: "-Inf"}.get(value, "NaN")


def word_at(source: Source, position: Position) -> tuple[str, Span] | None:
    """Return the dotted name at a position, as far as the part that the position is in."""
    for match in _WORD.finditer(source.line_text(position.line)):
        if match.start() <= position.column <= match.end():
            end = match.group().find(".", position.column - match.start())
            word = match.group() if end < 0 else match.group()[:end]
            return word, Span.of(position.line, match.start(), position.line, match.start() + len(word))
    return None


def facts_at(view: View, position: Position, targets: Mapping[int, str | None]) -> list[Fact]:
    """Return what is known of the name at a position, else of its line; ``targets`` are the names by line."""
    found = word_at(view.source, position)
    facts = list(dict.fromkeys(_of_name(view, found[0], position.line, targets))) if found else []
    if not facts and position.line in targets:
        outcome = view.outcomes.get(targets[position.line])
        facts = list(_of_outcome(outcome)) if outcome else []
    return facts or [_bound(s) for s in _at_line(view.shapes, position.line)]


def _of_name(view: View, name: str, line: int, targets: Mapping[int, str | None]) -> Iterator[Fact]:
    body = _body(view.source, line)
    above = [s for s in view.shapes if s.name == name and s.line <= line and _body(view.source, s.line) == body]
    if above:
        yield _bound(max(above, key=lambda shape: shape.line))
    target = line if line in targets else body
    outcome = view.outcomes.get(targets[target]) if target in targets else None
    for seen in outcome.seen if outcome else ():
        yield from (_given(given) for given in seen.result.inputs if given.name == name)
    for seen in view.seen:
        yield from (_gradient(g) for g in gradients(seen.result) if _names(name, str(g.get("name"))))


def _body(source: Source, line: int) -> int:
    """Return the line of the ``def`` around a line; 0 for the module."""
    indentation = len(source.indentation(line))
    for above in range(line - 1, 0, -1):
        if not indentation:
            break
        text = source.line_text(above)
        if text.strip() and len(source.indentation(above)) < indentation:
            indentation = len(source.indentation(above))
            if _DEF.match(text):
                return above
    return 0


def _bound(shape: Shape) -> Fact:
    return Fact(name=shape.name, after=f": {described(shape)}")


def _given(given: Input) -> Fact:
    return Fact("input ", given.name, f": {given.value}, from {given.source}")


def _at_line(shapes: Iterable[Shape], line: int) -> list[Shape]:
    return list({shape.name: shape for shape in shapes if shape.line == line}.values())


def gradients(result: Result) -> list[Mapping[str, Any]]:
    """Return what a run says of the gradients of parameters."""
    listed: object = result.data.get("gradients")
    items = cast("list[object]", listed) if isinstance(listed, list) else []
    return [cast("Mapping[str, Any]", item) for item in items if isinstance(item, dict)]


def _names(word: str, parameter: str) -> bool:
    """Say whether a name in the text (``self.fc.weight``, ``fc``) means a parameter or the module that holds it."""
    path = word.removeprefix("self.")
    return parameter == path or parameter.startswith(f"{path}.")


def _gradient(data: Mapping[str, Any]) -> Fact:
    norm = data.get("norm")
    said = f"has norm {_number(norm)}" if isinstance(norm, (int, float)) else "is missing"
    return Fact("the gradient of ", str(data.get("name")), f" {said}")


def _relations(result: Result) -> Iterator[Fact]:
    """Yield what must hold between two runs: what held, what is broken, and why the others were not tried."""
    by_outcome: dict[str, list[str]] = {}
    for tried in result.tried:
        why = f" ({tried.why})" if tried.why else ""
        by_outcome.setdefault(tried.outcome, []).append(tried.name + why)
    yield from (Fact(after=f"{word}: {', '.join(by_outcome[k])}") for k, word in _TRIED.items() if k in by_outcome)


def _of_outcome(outcome: Outcome) -> Iterator[Fact]:
    yield Fact(after=f"dry run: {words_of(outcome.seen)}")
    for seen in outcome.seen:
        yield from map(_given, seen.result.inputs)
        if seen.result.peak_bytes is not None:
            yield Fact(after=f"peak memory: {seen.result.peak_bytes / 2**20:,.1f} MiB")
        yield from map(_gradient, gradients(seen.result))
        yield from _relations(seen.result)
        yield from (Fact(after=note) for note in seen.result.notes)
