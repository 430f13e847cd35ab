"""A forecast as the server keeps it: what was told of a text, and of a later one that says the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drygrad.dryrun.forecast_lines import Held, held_by_line, moved
from drygrad.dryrun.result import Result
from drygrad.gpus import Gpu
from drygrad.lsp.shifting import Moves
from drygrad.model import Edit, Finding

if TYPE_CHECKING:
    from drygrad.dryrun.what_if.exploring import Row, Table


@dataclass(frozen=True)
class Forecasted:
    """One forecast; lines and edits are those of the text that it is shown on.

    ``told`` is the worker's forecast, None where there is none; ``table`` is None until changes were traced; ``lower``
    says whether more may be needed than is told. ``report`` is all of it for panels, at the lines that were followed,
    ``record`` what the service knows of it.
    """

    run_id: str
    path: Path
    result: Result
    told: Mapping[str, Any] | None = None
    gpu: Gpu | None = None
    table: Table | None = None
    lower: bool = False
    why: str | None = None
    findings: tuple[Finding, ...] = ()
    elsewhere: tuple[Finding, ...] = ()
    files: frozenset[Path] = frozenset()
    report: Mapping[str, Any] = field(default_factory=dict[str, Any])
    record: object = None

    @property
    def words(self) -> str:
        """The forecast in a few words."""
        from drygrad.lsp.forecast_words import words_of  # noqa: PLC0415 - a server that starts has no forecasts

        return words_of(self)

    @property
    def rows(self) -> tuple[Row, ...]:
        """The changes that were traced."""
        return self.table.rows if self.table is not None else ()

    def held(self, path: Path) -> dict[int, Held]:
        """Return what the lines of a file hold at the peak."""
        return held_by_line(self.told, str(path)) if self.told is not None else {}

    def moved(self, moves: Moves) -> Forecasted:
        """Return the forecast at the lines of another text; a change whose place is gone has no edits there."""
        told = moved(self.told, str(self.path), moves.line) if self.told is not None else None
        table = self.table
        if table is not None:
            table = replace(table, rows=tuple(self._row(row, moves) for row in table.rows))
        return replace(self, told=told, table=table)

    def _row(self, row: Row, moves: Moves) -> Row:
        edits = tuple(edit for old in row.edits if (edit := _edit(old, moves)) is not None)
        saved = ((at, moves.line(line) if at == str(self.path) else line, count) for at, line, count in row.saved)
        there = tuple((at, line, count) for at, line, count in saved if line is not None)
        return replace(row, edits=edits if len(edits) == len(row.edits) else (), saved=there)


def _edit(edit: Edit, moves: Moves) -> Edit | None:
    shift = moves.shift(edit.span)
    return replace(edit, span=edit.span.shifted(shift)) if shift is not None else None
