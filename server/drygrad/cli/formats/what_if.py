"""What could be different about a program, for people: a table, the greatest saving first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from drygrad.cli.formats.forecast import size
from drygrad.dryrun.what_if.exploring import WITHIN, Row, Table

_RESULTS = {"same": "equal", "rounded": "rounded", "other": "others"}
_HEADS = ("saves", "reserved", "computes", "at best", "fits", "results", "what if")


def table(found: Table, base: Mapping[str, Any]) -> str:
    """Return the table; columns of which nothing is known are left out."""
    time = base.get("time")
    cells = [_cells(row) for row in found.rows]
    kept = [place for place, head in enumerate(_HEADS) if head == "what if" or any(each[place] for each in cells)]
    widths = {place: max(len(each[place]) for each in (_HEADS, *cells)) for place in kept}

    def line(each: Sequence[str]) -> str:
        parts = [each[p] if _HEADS[p] == "what if" else each[p].rjust(widths[p]) for p in kept]
        return f"  {'  '.join(parts)}".rstrip()

    left = [f"  {found.untraced} more were not traced within {WITHIN:.0f} s"] if found.untraced else []
    assumed = [f"  assumed for {row.assumes}" for row in found.rows if row.assumes]
    return "\n".join([*_head(base, time), line(_HEADS), *map(line, cells), *assumed, *left]) + "\n"


def _head(base: Mapping[str, Any], time: Mapping[str, Any] | None) -> Iterator[str]:
    at_best = f", {_duration(time['seconds'])} at best" if time else ""
    as_it_is = f"{size(base['peak_reserved'])} reserved{at_best}"
    same = "`computes` and times are for the same amount of data"
    yield f"what if (each change was traced; without any: {as_it_is}; {same}):"


def _cells(row: Row) -> tuple[str, ...]:
    return (
        f"-{size(-row.saves)}" if row.saves < 0 else size(row.saves),
        size(row.peak_reserved),
        "" if row.flops is None else f"{row.flops:.2f}x",
        "" if row.seconds is None else _duration(row.seconds),
        "" if row.fits is None else "yes" if row.fits else "no",
        _RESULTS[row.results],
        row.change,
    )


def _duration(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"
