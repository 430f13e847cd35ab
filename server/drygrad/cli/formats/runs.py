"""What was run, for people: a block for each run under the findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from drygrad.cli.formats.text import NO_INPUTS, mark
from drygrad.cli.inspection import shown_path
from drygrad.cli.report import Ran, Report
from drygrad.cli.terminal import one_line, painted
from drygrad.dryrun import outcome_words
from drygrad.dryrun.costs import syncs
from drygrad.dryrun.merge import Record
from drygrad.dryrun.plan import Missing
from drygrad.dryrun.report import target_name
from drygrad.dryrun.result import Result, Shape
from drygrad.dryrun.short_forecast import short_forecast

SHOWN = 8
"""Longer lists are cut; the JSON has all of it."""

_COLOURS = {"passed": "1;32", "failed": "1;31", "deadline": "1;31", "crashed": "1;31", "out-of-memory": "1;31"}
_DOUBTFUL = "1;33"
_LABEL = 8
_COPIED = {"h2d": "copied to the device", "d2h": "copied to the host"}
_WAITED = {
    "aten::_local_scalar_dense": "a value is read from the device",
    "torch.cuda.synchronize": "waits for the device",
    "torch.cuda.empty_cache": "the cache is emptied, which synchronizes with the device,",
}
WIDEST = 60
"""Longer lines of source are cut."""


def blocks(runs: Sequence[Ran], *, coloured: bool) -> Iterator[str]:
    """Yield a block for each run.

    Of several, the shapes are left out, and a note is told once; of several files, those that passed have no block.
    """
    told: set[str] = set()
    several = len({ran.path for ran in runs}) > 1
    for ran in runs:
        if several and _went_well(ran):
            continue
        if isinstance(ran.outcome, Missing):
            yield f"{target_name(ran.path, ran.outcome.target)}: not run: {ran.said(ran.outcome.message)}\n"
            continue
        result = ran.outcome.result
        notes = [note for note in result.notes if note not in told and note not in outcome_words.ended(result)]
        told.update(notes)
        again = result.reason in told
        told.update([result.reason] if result.reason else [])
        lines = _block(ran, ran.outcome, notes, brief=len(runs) > 1, again=again, coloured=coloured)
        yield ran.said("\n".join(lines)) + "\n"


def _went_well(ran: Ran) -> bool:
    return isinstance(ran.outcome, Missing) or ran.outcome.result.outcome in ("passed", "no-inputs")


def table(report: Report) -> str:
    """Return a line for each file: how many targets ran, how many passed, what was found, how many had no inputs."""
    rows: list[tuple[str, ...]] = [("file", "run", "passed", "findings", "no inputs")]
    for result in (result for result in report.results if not result.mentioned):
        outcomes = [_outcome(ran) for ran in report.runs if ran.path == result.path]
        missing = outcomes.count("no-inputs")
        counts = (len(outcomes) - missing, outcomes.count("passed"), len(result.items), missing)
        rows.append((result.path, *map(str, counts)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join((row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:]))) for row in rows)
    return "\n".join(lines) + "\n"


def _outcome(ran: Ran) -> str:
    return "no-inputs" if isinstance(ran.outcome, Missing) else ran.outcome.result.outcome


def _block(ran: Ran, record: Record, notes: list[str], *, brief: bool, again: bool, coloured: bool) -> Iterator[str]:
    result = record.result
    words = result.outcome if again else one_line(outcome_words.ended(result))
    skipped = result.coverage is not None and result.coverage.is_partial
    colour = _DOUBTFUL if skipped else _COLOURS.get(result.outcome, _DOUBTFUL)
    words, colon, why = words.partition(": ")
    outcome = painted(words, colour) if coloured else words
    target = target_name(ran.path, record.plan.target)
    torch = f" with torch {result.torch}" if result.torch else ""
    spent = f" in {_seconds(result.seconds)}{torch}" if result.seconds else ""
    yield f"{one_line(target)}: {outcome}{spent}{colon}{why}"
    yield from _labelled("inputs", [f"{i.name} = {i.value} ({i.source})" for i in result.inputs])
    yield from _labelled("write", [record.comment] if record.comment and not brief else [])
    yield from _labelled("shapes", [] if brief else [*_shapes(ran, record)])
    yield from _labelled("memory", [*_memory(result)])
    short = short_forecast(record)
    yield from _labelled("forecast", [short.sentence()] if short is not None and short.is_noteworthy else [])
    yield from _labelled("at peak", [] if brief else [*_held_at_peak(record, ran.path)])
    yield from _labelled("grads", [] if brief else [*_gradients(result)])
    yield from _labelled("waits", [*_waits(record, ran.path)])
    yield from _labelled("error", [*_error(record, ran.path)])
    yield from _labelled("held", [*_held(result)])
    yield from _labelled("untried", [] if brief else [*_untried(result)])
    yield from _labelled("notes", notes)
    refuted = [f"{f.code} on line {f.span.start.line} did not happen ({f.name})" for f in ran.refuted]
    yield from _labelled("refuted", refuted)
    if result.outcome != "passed":
        yield from _labelled("output", result.output.rstrip().splitlines()[-SHOWN:])


def _labelled(label: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield lines in a column of their own, the label before the first."""
    for number, line in enumerate(lines[:SHOWN]):
        yield f"  {'' if number else label:{_LABEL}} {one_line(line)}"
    if len(lines) > SHOWN:
        yield f"  {'':{_LABEL}} … {len(lines) - SHOWN} more with --output-format json"


def _shapes(ran: Ran, record: Record) -> Iterator[str]:
    """Yield one line of the target each, with what its names were bound to beside it."""
    by_line: dict[int, list[Shape]] = {}
    first, last = (position.line for position in record.plan.target.span)
    for shape in record.result.shapes:
        if first <= shape.line <= last:
            by_line.setdefault(shape.line, []).append(shape)
    lines = {line: _cut(mark(_source(ran, line).strip(), 0, 1)[0]) for line in sorted(by_line)}
    width = max(map(len, lines.values()), default=0)
    places = {line: ran.place(line) for line in lines}
    gutter = max(map(len, places.values()), default=1)
    for line, text in lines.items():
        bound = ", ".join(_shape(shape) for shape in by_line[line])
        yield f"{places[line]:>{gutter}} | {text:{width}}  {bound}"


def _cut(text: str) -> str:
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"


def _source(ran: Ran, line: int) -> str:
    return ran.lines[line - 1] if 0 < line <= len(ran.lines) else ""


def _shape(shape: Shape) -> str:
    sizes = ", ".join(map(str, shape.shape))
    device = "" if shape.device == "cpu" else f" {shape.device}"
    return f"{shape.name} {shape.dtype} [{sizes}]{device}"


def _memory(result: Result) -> Iterator[str]:
    if not result.peak_bytes:
        return
    memory = result.data.get("memory")
    phases = cast("Mapping[str, Any]", memory).get("by_phase") if isinstance(memory, Mapping) else None
    parts = [f"{name} {_size(count)}" for name, count in cast("Mapping[str, Any]", phases or {}).items() if count]
    yield f"peak {_size(result.peak_bytes)}" + (f" ({', '.join(parts)})" if len(parts) > 1 else "")


def _held_at_peak(record: Record, shown: str) -> Iterator[str]:
    """Yield the lines that held most memory at the peak, where more than one did."""
    memory = record.result.data.get("memory")
    rows = cast("Mapping[str, Any]", memory).get("by_line") if isinstance(memory, Mapping) else None
    lines = cast("list[Mapping[str, Any]]", rows or [])
    if len(lines) > 1:
        for row in lines:
            where = _where(record, row.get("path"), row.get("line"), shown)
            yield f"{where}: {row.get('what')} {_size(row.get('bytes'))}"


def _gradients(result: Result) -> Iterator[str]:
    """Yield the norm of each parameter's gradient."""
    rows = cast("list[Mapping[str, Any]]", result.data.get("gradients") or [])
    width = max((len(str(row.get("name"))) for row in rows), default=0)
    for row in rows:
        norm = row.get("norm")
        said = f"norm {norm:.3g}" if isinstance(norm, (int, float)) else "not finite"
        yield f"{row.get('name')!s:{width}}  {said}"


def _waits(record: Record, shown: str) -> Iterator[str]:
    for wait in syncs(record.result):
        count, op = wait.get("count", 1), str(wait.get("op"))
        said = _COPIED.get(str(wait.get("kind"))) or _WAITED.get(op) or f"waits for the device ({op})"
        where = _where(record, wait.get("path"), wait.get("line"), shown)
        yield f"{where}: {said} {'once' if count == 1 else f'{count} times'}"


def _held(result: Result) -> Iterator[str]:
    """Yield the relations that held between two runs, in one line."""
    names = [tried.name for tried in result.tried if tried.outcome == "held"]
    if names:
        yield f"{len(names)} relation{'s' if len(names) > 1 else ''}: {', '.join(names)}"


def _untried(result: Result) -> Iterator[str]:
    """Yield the relations that could not be tried, each with the reason."""
    yield from (f"{tried.name}: {tried.why}" for tried in result.tried if tried.outcome == "not-tried")


def _where(record: Record, path: object, line: object, shown: str) -> str:
    """Name a line: by its number in the target's file, with the file's name in another one."""
    if not isinstance(path, str) or Path(path) == record.plan.path:
        return f"line {line}"
    return f"{shown_path(path, beside=shown)}:{line}"


def _error(record: Record, shown: str) -> Iterator[str]:
    error = record.result.error
    faults = (finding for finding in (*record.findings, *record.elsewhere) if finding.code != NO_INPUTS)
    if (
        error is None
        or error.type == record.result.outcome
        or any(error.message in f"{f.message} {f.detail}" for f in faults)
    ):
        return
    place = f" at {_where(record, error.at.path, error.at.line, shown)}" if error.at else ""
    text, _, more = error.message.partition("\n")
    yield f"{error.type}{place}: {text}{' …' if more else ''}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def _size(count: object) -> str:
    size = float(count) if isinstance(count, (int, float)) else 0.0
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
