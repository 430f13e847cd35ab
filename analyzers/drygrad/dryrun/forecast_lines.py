"""What a forecast says of lines: what each holds at the peak, and which change leaves it less."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

Told = Mapping[str, Any]
_UNMOVED = frozenset(("over_time", "marks", "steps", "seen"))
_NOTEWORTHY = 1 << 20
_LITTLE = 0.001
"""Of the peak: a line that holds less is not worth a hint."""
_CHANGES = 20


@dataclass(frozen=True)
class Held:
    """What a line holds at the peak: bytes in all and by kind, the kind that takes most first."""

    line: int
    bytes: int
    kinds: tuple[tuple[str, int], ...]


def held_by_line(told: Told, path: str) -> dict[int, Held]:
    """Return what the lines of a file hold that hold something worth mentioning."""
    rows: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
    for row in cast("list[Told]", told["by_line"]):
        if row["path"] == path and row["line"] is not None:
            rows[row["line"]].append((row["kind"], row["bytes"]))
    least = max(_NOTEWORTHY, int(_LITTLE * told["peak_allocated"]))
    found = {line: sum(count for _, count in kinds) for line, kinds in rows.items()}
    return {
        line: Held(line, count, tuple(sorted(rows[line], key=lambda kind: -kind[1])))
        for line, count in sorted(found.items())
        if count >= least
    }


def tensors_of(told: Told, path: str, line: int) -> list[Told]:
    """Return those of the tensors that count which a line has made."""
    return [row for row in cast("list[Told]", told["tensors"]) if (row["path"], row["line"]) == (path, line)]


def saved_by_line(base: Told, now: Told) -> tuple[tuple[str, int, int], ...]:
    """Return by how much less lines hold in one trace than in another: path, line and bytes, the most first."""
    before, after = _totals(base), _totals(now)
    saved = ((path, line, count - after.get((path, line), 0)) for (path, line), count in before.items())
    worth = [row for row in saved if row[2] >= _NOTEWORTHY]
    return tuple(sorted(worth, key=lambda row: -row[2])[:_CHANGES])


def _totals(told: Told) -> dict[tuple[str, int], int]:
    found: defaultdict[tuple[str, int], int] = defaultdict(int)
    for row in cast("list[Told]", told["by_line"]):
        if row["path"] is not None and row["line"] is not None:
            found[row["path"], row["line"]] += row["bytes"]
    return found


def moved(told: Told, path: str, move: Callable[[int], int | None]) -> Told:
    """Return a forecast with a file's lines at their places in another text; a line that is gone there is None."""
    return {name: value if name in _UNMOVED else _moved(value, path, move) for name, value in told.items()}


def _moved(value: Any, path: str, move: Callable[[int], int | None]) -> Any:
    if isinstance(value, Mapping):
        row = {name: _moved(each, path, move) for name, each in cast("Told", value).items()}
        if row.get("path") == path and isinstance(row.get("line"), int):
            row["line"] = move(row["line"])
        return row
    if isinstance(value, list):
        return [_moved(each, path, move) for each in cast("list[Any]", value)]
    return value


def places(rows: Sequence[Told]) -> Iterator[tuple[str, int, Told]]:
    """Yield the rows that have a place in the user's code."""
    for row in rows:
        if row["path"] is not None and row["line"] is not None:
            yield row["path"], row["line"], row
