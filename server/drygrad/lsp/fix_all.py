"""All safe fixes of a document or a notebook in one edit."""

from __future__ import annotations

from collections.abc import Iterator

from drygrad.fixing import fix_text
from drygrad.lsp.checking import Analyzes
from drygrad.lsp.lines import changed_blocks
from drygrad.lsp.modules import Module, Part
from drygrad.model import Edit, Position, Span
from drygrad.static.source import Source


def fix_all(module: Module, analyzer: Analyzes) -> dict[str, list[Edit]]:
    """Return the edits of each part after which no safe fix is left; empty where there is nothing to do."""
    fixed = fix_text(module.source.text, lambda text: analyzer.check(Source(text)).findings)
    before, after = module.pieces(module.source.text), module.pieces(fixed.text)
    if before is None or after is None:
        return {}
    edits: dict[str, list[Edit]] = {}
    for part, old, new in zip(module.parts, before, after, strict=True):
        if old != new:
            edits[part.uri] = list(_edits(part, Source(old), Source(new)))
    return (
        edits if all(_keeps_magics(part, edits.get(part.uri, []), old) for part, old in _pairs(module, before)) else {}
    )


def _pairs(module: Module, pieces: list[str]) -> Iterator[tuple[Part, Source]]:
    for part, piece in zip(module.parts, pieces, strict=True):
        yield part, Source(piece)


def _edits(part: Part, old: Source, new: Source) -> Iterator[Edit]:
    """Yield the changed lines; a cell's last line has no line end, though the module's has."""
    count = len(part.source.lines)
    for gone, come in changed_blocks(old.lines, new.lines):
        text = "".join(new.lines[come])
        if gone.stop < count or _is_ended(part.source):
            yield Edit(Span.of(gone.start + 1, 0, gone.stop + 1, 0), text)
        else:
            end = Position(max(count, 1), len(part.source.line_text(count)))
            start = min(Position(gone.start + 1, 0), end)
            yield Edit(Span(start, end), ("\n" if gone.start >= count > 0 else "") + text.rstrip("\r\n"))


def _is_ended(source: Source) -> bool:
    return source.text.endswith(("\n", "\r"))


def _keeps_magics(part: Part, edits: list[Edit], old: Source) -> bool:
    """Say whether the edits touch only lines that stand in the cell as they do in the module."""
    return all(
        part.source.line_text(line) == old.line_text(line)
        for edit in edits
        for line in range(edit.span.start.line, edit.span.end.line)
    )
