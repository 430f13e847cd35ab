"""What a repair has to leave as it was: values and gradients that were right, and what the program changes.

Two runs are compared, before and after it, by what the worker's instrument ``comparison`` has sampled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from drygrad.dryrun.result import Result
from drygrad.model import Edit

_SAME_VALUES = frozenset(
    "DG101 DG102 DG107 DG401 DG402 DG403 DG404 DG405 DG406 DG407 DG409 DG410 DG411 DG412 DG414 DG416".split()
)
_SAME_FAMILIES = ("DG5", "DG6")
"""Faults whose repair changes no value that is finite: of the others only what precedes the repair is compared."""
_SAME_GRADIENTS = ("DG4", "DG6")
_RELATIVE, _ABSOLUTE = 1e-2, 2e-4
"""A customary epsilon of 1e-8 under a root is 1e-4."""
_FIRST = "1:"
_AS_GOOD_AS_INFINITE = 1e8
"""Numbers so large stand for infinity, in masks above all."""


@dataclass(frozen=True)
class Sample:
    """Some elements of a tensor; None in the place of one that was not finite."""

    shape: tuple[int, ...]
    elements: tuple[float | None, ...]

    def keeps(self, other: Sample) -> bool:
        """Say whether every element that is finite here is the same in another sample."""
        if len(self.elements) != len(other.elements):
            return False
        return all(map(_is_kept, self.elements, other.elements))

    def is_near(self, other: Sample, within: float = _RELATIVE) -> bool:
        """Say whether no element is far from that of another sample, by the measure of the largest."""
        if self.shape != other.shape:
            return False
        far = within * max((abs(element) for element in self.elements if element is not None), default=0.0)
        pairs = zip(self.elements, other.elements, strict=True)
        return all(a == b or (a is not None and b is not None and abs(a - b) <= far) for a, b in pairs)


@dataclass(frozen=True)
class Comparison:
    """What a run can be compared by: values by line, name and how often it was bound; the state that was left."""

    values: Mapping[tuple[int, str, int], Sample]
    state: Mapping[str, Sample]
    changed: frozenset[str]
    gradients: Mapping[str, Sample]
    steps: Mapping[str, Sample] = field(default_factory=dict[str, Sample])
    """The gradients that the first steps of optimizers begin with."""

    @classmethod
    def read(cls, result: Result) -> Comparison | None:
        """Read what the worker says; None where it was not asked, or not all of it can be read."""
        data = result.data.get("comparison")
        if not isinstance(data, Mapping):
            return None
        found = cast("Mapping[str, object]", data)
        states = [*_objects(found.get("state"))]
        changed = {str(entry.get("name")) for entry in states if entry.get("changed") is True}
        return cls(
            {_key(entry): _sample(entry) for entry in _objects(found.get("values"))},
            {str(entry.get("name")): _sample(entry) for entry in states},
            frozenset({*changed, *map(str, _list(found.get("written")))}),
            {str(entry.get("name")): _sample(entry) for entry in _objects(found.get("gradients"))},
            {str(entry.get("name")): _sample(entry) for entry in _objects(found.get("steps"))},
        )

    @classmethod
    def of_none(cls) -> Comparison:
        """Return what a run can be compared by that came to no end: nothing."""
        return cls({}, {}, frozenset(), {})

    def steps_as(self, other: Comparison) -> bool:
        """Say whether steps begin with the gradients that those of another run begin with."""
        alike = self.steps.keys() == other.steps.keys()
        return alike and all(sample.is_near(other.steps[name]) for name, sample in self.steps.items())

    def begins_as(self, other: Comparison, within: float) -> bool:
        """Say whether the first step begins with the gradients of another run, up to what is lost with fewer digits."""
        first = {name: sample for name, sample in self.steps.items() if name.startswith(_FIRST)}
        alike = first.keys() == {name for name in other.steps if name.startswith(_FIRST)}
        return alike and all(sample.is_near(other.steps[name], within) for name, sample in first.items())

    @property
    def effects(self) -> Comparison:
        """What the program changes: all that runs with different inputs can be compared by."""
        return replace(self, values={}, gradients={})


def lost(
    before: Comparison, after: Comparison, code: str, edits: Sequence[Edit], line: Callable[[int], int]
) -> str | None:
    """Say what a repair of a fault has changed that was right before; None: nothing.

    ``line`` tells where a line of the text before has gone.
    """
    unchanged = sorted(before.changed - after.changed)
    if unchanged:
        return f"`{unchanged[0]}` is no longer changed"
    compared = before.values if is_kept_by(code) else dict(_before(before.values, edits))
    for (number, name, turn), sample in compared.items():
        now = after.values.get((line(number), name, turn))
        if now is not None and not sample.keeps(now):
            return f"`{name}` on line {number} was finite and now has a different value"
    if code.startswith(_SAME_GRADIENTS):
        for name, sample in before.gradients.items():
            if name not in after.gradients or not sample.keeps(after.gradients[name]):
                return f"the gradient of `{name}` was finite and is different now"
    return None


def is_kept_by(code: str) -> bool:
    """Say whether a repair of a fault changes no finite value."""
    return code in _SAME_VALUES or code.startswith(_SAME_FAMILIES)


def _before(
    values: Mapping[tuple[int, str, int], Sample], edits: Sequence[Edit]
) -> Iterator[tuple[tuple[int, str, int], Sample]]:
    """Yield the values, in the order in which they came, until a repair can have touched them."""
    first = min((edit.span.start.line for edit in edits if edit.path is None), default=0)
    for (number, name, turn), sample in values.items():
        if number >= first or turn > 1:
            return
        yield (number, name, turn), sample


def _is_kept(before: float | None, after: float | None) -> bool:
    if before is None or abs(before) >= _AS_GOOD_AS_INFINITE:
        return True
    return after is not None and abs(before - after) <= _ABSOLUTE + _RELATIVE * abs(before)


def _key(entry: Mapping[str, Any]) -> tuple[int, str, int]:
    line, number = entry.get("line"), entry.get("number")
    return line if isinstance(line, int) else 0, str(entry.get("name")), number if isinstance(number, int) else 0


def _sample(entry: Mapping[str, Any]) -> Sample:
    shape, elements = _list(entry.get("shape")), _list(entry.get("elements"))
    numbers = (float(e) if isinstance(e, (int, float)) else None for e in elements)
    return Sample(tuple(size for size in shape if isinstance(size, int)), tuple(numbers))


def _list(data: object) -> list[object]:
    return cast("list[object]", data) if isinstance(data, list) else []


def _objects(data: object) -> Iterator[Mapping[str, Any]]:
    yield from (cast("Mapping[str, Any]", entry) for entry in _list(data) if isinstance(entry, Mapping))
