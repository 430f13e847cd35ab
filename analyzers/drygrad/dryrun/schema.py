"""Kinds of values that cross the wire, put together from a few words: a kind takes a value and returns it, or refuses.

What is merely too long is cut; what is of another type, out of its range or of an unknown name is ``Malformed``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, cast

Kind = Callable[[object], Any]

_SHOWN = 60
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


class Malformed(Exception):
    """A value that is not of its kind: where it stands (``faults[2].at.line``) and what is wrong with it."""

    def __init__(self, why: str, path: str = "") -> None:
        super().__init__(f"{path.lstrip('.')}: {why}" if path else why)
        self.why = why
        self.path = path

    def inside(self, step: str) -> Malformed:
        """Return the same of a value that holds this one."""
        return Malformed(self.why, step + self.path)


class Optional(NamedTuple):
    """A field that may be missing."""

    kind: Kind


def is_not(what: str, value: object) -> Malformed:
    """Return the refusal of a value; it shows a little of it, and never converts a long number to text."""
    if isinstance(value, int) and value.bit_length() > 64:
        return Malformed(f"a number of {value.bit_length()} bits is not {what}")
    shown = "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else ascii(value)[:_SHOWN]
    return Malformed(f"{shown} is not {what}")


def text(most: int) -> Kind:
    """Text of at most so many characters; longer is cut. Surrogates that stand for no character are replaced."""

    def read(value: object) -> str:
        if not isinstance(value, str):
            raise is_not("text", value)
        kept = value if len(value) <= most else value[: most - 1] + "…"
        return kept if kept.isascii() else kept.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    return read


def line(most: int) -> Kind:
    """Text in one line; what would begin another, or move the cursor, becomes a space."""
    whole = text(most)
    return lambda value: _CONTROL.sub(" ", whole(value))


def path(value: object) -> str:
    """The path of a file, with the surrogates that Python writes for bytes which are no UTF-8, and no others."""
    if not isinstance(value, str) or not 0 < len(value) <= 4096 or "\0" in value:
        raise is_not("a path", value)
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise is_not("a path", value) from None
    return value


def matching(pattern: str, what: str) -> Kind:
    """Text that a pattern matches from end to end."""
    wanted = re.compile(pattern)

    def read(value: object) -> str:
        if not isinstance(value, str) or wanted.fullmatch(value) is None:
            raise is_not(what, value)
        return value

    return read


def one_of(names: Collection[str], what: str) -> Kind:
    """One of the names that are known."""
    known = frozenset(names)

    def read(value: object) -> str:
        if not isinstance(value, str) or value not in known:
            raise is_not(what, value)
        return value

    return read


def integer(low: int, high: int) -> Kind:
    """A whole number within bounds; a truth value is none."""

    def read(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise is_not(f"a whole number from {low} to {high}", value)
        return value

    return read


def number(low: float, high: float) -> Kind:
    """A finite number within bounds; whole ones stay whole."""

    def read(value: object) -> float:
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not low <= value <= high:
            raise is_not(f"a number from {low:g} to {high:g}", value)
        if isinstance(value, float) and not math.isfinite(value):
            raise is_not("a finite number", value)
        return value

    return read


def flag(value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise is_not("true or false", value)
    return value


def maybe(kind: Kind) -> Kind:
    """A kind, or nothing."""
    return lambda value: None if value is None else kind(value)


def either(what: str, *kinds: Kind) -> Kind:
    """The first of several kinds that a value is of."""

    def read(value: object) -> Any:
        for kind in kinds:
            try:
                return kind(value)
            except Malformed:
                continue
        raise is_not(what, value)

    return read


def items(kind: Kind, most: int) -> Kind:
    """A list of a kind; what is more than so many is cut."""

    def read(value: object) -> list[Any]:
        if not isinstance(value, list):
            raise is_not("a list", value)
        return [_at(f"[{at}]", kind, item) for at, item in enumerate(cast("list[object]", value)[:most])]

    return read


def table(name: Kind, kind: Kind, most: int) -> Kind:
    """Names of one kind with values of another, at most so many."""

    def read(value: object) -> dict[str, Any]:
        entries = _entries(value)
        if len(entries) > most:
            raise Malformed(f"{len(entries)} entries are more than {most}")
        return {_at(".", name, key): _at(f".{key}"[:_SHOWN], kind, item) for key, item in entries.items()}

    return read


def record(fields: Mapping[str, Kind | Optional]) -> Kind:
    """An object with these fields and no others."""
    required = [name for name, kind in fields.items() if not isinstance(kind, Optional)]
    kinds = {name: kind.kind if isinstance(kind, Optional) else kind for name, kind in fields.items()}

    def read(value: object) -> dict[str, Any]:
        entries = _entries(value)
        _refuse("no such field", (name for name in entries if name not in kinds))
        _refuse("missing", (name for name in required if name not in entries))
        return {name: _at(f".{name}", kinds[name], item) for name, item in entries.items()}

    return read


def _refuse(why: str, names: Iterable[str]) -> None:
    for name in names:
        raise Malformed(why, f".{ascii(name)[1:-1][:_SHOWN]}")


def _entries(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise is_not("an object", value)
    return cast("dict[str, object]", value)


def _at(step: str, kind: Kind, value: object) -> Any:
    try:
        return kind(value)
    except Malformed as error:
        raise error.inside(step) from None
