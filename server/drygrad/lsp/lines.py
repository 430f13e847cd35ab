"""Which lines of a text are still there in another version of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

_MAX_COMPARED = 3_000
"""Changed regions with more lines than this are not compared line by line, but taken as changed altogether."""


def equal_blocks(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Yield ``(start in old, start in new, length)`` of the runs of lines that both have, in order."""
    head = _common(old, new)
    tail = _common(list(reversed(old[head:])), list(reversed(new[head:])))
    yield 0, 0, head
    middle_old, middle_new = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(middle_old) + len(middle_new) <= _MAX_COMPARED:
        matcher = SequenceMatcher(None, middle_old, middle_new, autojunk=False)
        for a, b, size in matcher.get_matching_blocks():
            yield head + a, head + b, size
    yield len(old) - tail, len(new) - tail, tail


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


def changed_blocks(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[slice, slice]]:
    """Yield the lines of the old text and those of the new that take their place."""
    a = b = 0
    for next_a, next_b, size in [*equal_blocks(old, new), (len(old), len(new), 0)]:
        if next_a > a or next_b > b:
            yield slice(a, next_a), slice(b, next_b)
        a, b = next_a + size, next_b + size
