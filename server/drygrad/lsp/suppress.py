"""The comment that keeps a finding quiet, put where Python allows a comment."""

from __future__ import annotations

import re

from drygrad.model import Edit, Position, Span
from drygrad.static.source import Source

_COMMENT_OR_STRING = re.compile(
    r"""(?P<comment>\#[^\r\n]*)
    | \"\"\"(?:[^"\\]|\\.|"(?!""))*\"\"\"
    | '''(?:[^'\\]|\\.|'(?!''))*'''
    | "(?:[^"\\\r\n]|\\.)*"
    | '(?:[^'\\\r\n]|\\.)*'""",
    re.VERBOSE | re.DOTALL,
)
_IGNORE = re.compile(r"#\s*drygrad:\s*ignore\[(?P<codes>[^\]#]*)\]", re.IGNORECASE)


def ignore_edit(source: Source, position: Position, code: str) -> Edit:
    """Return the edit that silences a rule on the line of a position, or on the next that can have a comment."""
    comments: dict[int, int] = {}
    inside: set[int] = set()
    for match in _COMMENT_OR_STRING.finditer(source.text):
        if match["comment"]:
            comments[match.end()] = match.start()
        else:
            inside.update(_line_ends(source, match.start(), match.end()))
    for line in range(position.line, len(source.lines) + 1):
        text = source.line_text(line)
        end = source.line_offsets[line - 1] + len(text)
        if end in comments:
            return _in_comment(source, line, comments[end], code)
        if end not in inside and not text.endswith("\\"):
            break
    else:
        line, text = position.line, source.line_text(position.line)
    return _insertion(line, len(text), f"{'' if text.endswith('  ') else '  '}# drygrad: ignore[{code}]")


def _line_ends(source: Source, start: int, end: int) -> list[int]:
    """Return where lines end within a string."""
    return [start + match.start() for match in re.finditer(r"\r\n|\n|\r", source.text[start:end])]


def _in_comment(source: Source, line: int, start: int, code: str) -> Edit:
    """Extend the comment of a line, or the list of codes that it has already."""
    text = source.line_text(line)
    column = start - source.line_offsets[line - 1]
    if match := _IGNORE.search(text, column):
        return _insertion(line, match.end("codes"), f", {code}" if match["codes"].strip() else code)
    return _insertion(line, len(text), f"  # drygrad: ignore[{code}]")


def _insertion(line: int, column: int, text: str) -> Edit:
    return Edit(Span(Position(line, column), Position(line, column)), text)
