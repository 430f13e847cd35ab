"""What a forecast says in an editor: behind a line, on hover, above a function, in a message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from drygrad.dryrun.forecast_finding import held_words, operation
from drygrad.dryrun.forecast_lines import Held, tensors_of
from drygrad.dryrun.short_forecast import room_on, roomy, size
from drygrad.dryrun.what_if.exploring import Row
from drygrad.lsp.forecasted import Forecasted
from drygrad.lsp.observed import Hint

_WHAT_IF = "what if: "
_CHANGES = 3
_TENSORS = 3
_RESULTS = {"same": "equal results", "rounded": "rounded results", "other": "different training"}


def words_of(made: Forecasted) -> str:
    """Return a forecast in a few words."""
    told = made.told
    if told is None:
        return f"no forecast: {made.why}" if made.why else "no forecast"
    return f"{_least(made)}{size(told['peak_reserved'])} of GPU memory{_fits(made, ', ')}"


def _least(made: Forecasted) -> str:
    return "at least " if made.lower else ""


def _fits(made: Forecasted, before: str) -> str:
    gpu, told = made.gpu, made.told
    if gpu is None or told is None or told["fits"] is None:
        return ""
    room = size(room_on(gpu.memory, told))
    return f"{before}{'fits' if told['fits'] else 'does not fit'} {gpu.name} ({room} usable)"


def hints(forecasts: Sequence[Forecasted], path: Path) -> Iterator[Hint]:
    """Yield what stands behind the lines of a file; where forecasts differ, the latest counts."""
    lines: dict[int, tuple[Forecasted, Held]] = {}
    for made in forecasts:
        lines |= {line: (made, held) for line, held in made.held(path).items()}
    for line, (made, held) in sorted(lines.items()):
        tooltip = "\n".join(of_line(made, path, line))
        yield Hint(line, f"+{size(held.bytes)}", tooltip)


def of_line(made: Forecasted, path: Path, line: int) -> Iterator[str]:
    """Yield what a line holds at the peak, what keeps it, and what would make it less."""
    told, held = made.told, made.held(path).get(line)
    if told is None or held is None:
        return
    yield f"at the forecast peak of {size(told['peak_allocated'])}, this line holds {held_words(held)}"
    for row in tensors_of(told, str(path), line)[:_TENSORS]:
        yield _tensor(row, path)
    saving = [(count, row) for row in made.rows for at, where, count in row.saved if (at, where) == (str(path), line)]
    for count, row in sorted(saving, key=lambda each: -min(each[0], each[1].saves))[:_CHANGES]:
        yield f"{_WHAT_IF}{row.change}: {size(count)} less on this line, {_saved(row)} in all"


def _tensor(row: Mapping[str, Any], path: Path) -> str:
    times = f"{row['count']} x " if row["count"] > 1 else ""
    named = f" {row['name']}" if row["name"] else ""
    kept = row["kept_by"]
    where = "" if kept is None or kept["line"] is None else f" on line {kept['line']}"
    if kept is not None and kept["path"] not in (None, str(path)):
        where += f" of {Path(kept['path']).name}"
    why = f", kept for the backward of {kept['operation']}{where}" if kept else ""
    return f"{times}{size(row['bytes'])} of {row['kind']}{named}, made by {operation(row)} in {row['phase']}{why}"


def _saved(row: Row) -> str:
    return f"{size(row.saves)} less" if row.saves >= 0 else f"{size(-row.saves)} more"


def of_target(made: Forecasted) -> Iterator[str]:
    """Yield what a forecast comes to, for the place where its target is named."""
    told = made.told
    if told is None:
        yield words_of(made)
        return
    peak = told["peak"]
    where = f" on line {peak['line']}, in {peak['phase']}" if peak and peak["path"] == str(made.path) else ""
    allocated, reserved = size(told["peak_allocated"]), size(told["peak_reserved"])
    least = _least(made)
    yield f"forecast: {least}{allocated} allocated at the peak{where}; {least}{reserved} reserved{_room(made)}"
    yield from (f"by {name}: {_joined(told[field])}" for name, field in _PARTS if told[field])
    if told.get("time"):
        yield f"at best {_duration(told['time']['seconds'])} for {told['time']['of']}"
    for row in [row for row in made.rows if row.saves > 0][:_CHANGES]:
        yield f"{_WHAT_IF}{change_words(row)}"
    if made.lower and made.why:
        yield f"the trace is incomplete: {made.why}"


_PARTS = (("phase", "phases"), ("kind", "kinds"))


def _room(made: Forecasted) -> str:
    if made.gpu is None and made.told is not None:
        first = next(iter(roomy(made.told["peak_reserved"])), None)
        return f"; {first.name} has room" if first else "; no GPU has room"
    return _fits(made, "; ")


def change_words(row: Row) -> str:
    """Return what a change saves."""
    fits = "" if row.fits is None else ", fits" if row.fits else ", does not fit"
    return f"{row.change}: {size(row.peak_reserved)} reserved, {_saved(row)}{fits} ({_RESULTS[row.results]})"


def _joined(parts: Mapping[str, int]) -> str:
    ranked = sorted(parts.items(), key=lambda part: -part[1])
    return ", ".join(f"{name} {size(count)}" for name, count in ranked if count)


def _duration(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


def message(qualname: str | None, made: Forecasted) -> str:
    """Return a forecast as a message, for editors without a panel."""
    own = [sentence for sentence in of_target(made) if not sentence.startswith(_WHAT_IF)]
    changes = [f"{_WHAT_IF}{change_words(row)}" for row in made.rows]
    return "\n".join([f"{qualname or 'The script'}:", *own, *changes])
