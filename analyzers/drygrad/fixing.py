"""Applying fixes to a text: never two at one place, never to a text that then no longer parses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from drygrad.model import Edit, Finding, Fix
from drygrad.static.source import Source, SourceError

MAX_ROUNDS = 50
"""A fix may uncover a finding with a fix of its own; two that undo each other must not go on for ever."""

Check = Callable[[str], Sequence[Finding]]


@dataclass(frozen=True)
class Fixed:
    """A text after its fixes: how many were applied, and those refused because the text would no longer parse."""

    text: str
    applied: int = 0
    refused: tuple[Fix, ...] = ()


def apply_edits(source: Source, edits: Iterable[Edit]) -> str:
    """Return the text with edits that do not overlap; their line ends become those of the text."""
    text = source.text
    for edit in sorted(edits, key=lambda edit: edit.span, reverse=True):
        start, end = source.offset(edit.span.start), source.offset(edit.span.end)
        text = text[:start] + _with_newlines(edit.new_text, source.newline) + text[end:]
    return text


def _with_newlines(text: str, newline: str) -> str:
    plain = text.replace("\r\n", "\n")
    return plain if newline == "\n" else plain.replace("\n", newline)


def compatible(fixes: Iterable[Fix]) -> list[Fix]:
    """Return the fixes that can be applied together: of two that touch, the first; none of other files."""
    taken: list[Edit] = []
    chosen: list[Fix] = []
    for fix in fixes:
        local = fix.edits and all(edit.path is None for edit in fix.edits)
        if local and not any(edit.span.overlaps(other.span) for edit in fix.edits for other in taken):
            taken += fix.edits
            chosen.append(fix)
    return chosen


def offered(finding: Finding, *, unsafe: bool) -> Fix | None:
    """Return the fix of a finding that may be applied unasked: the first that is safe enough."""
    return next((fix for fix in finding.fixes if unsafe or fix.safety == "safe"), None)


def fix_text(text: str, check: Check, *, unsafe: bool = False) -> Fixed:
    """Apply the fixes of a text's findings again and again, until none is left to apply."""
    seen = {text}
    applied = 0
    refused: list[Fix] = []
    for _ in range(MAX_ROUNDS):
        fixes = [fix for finding in check(text) if (fix := offered(finding, unsafe=unsafe)) and fix not in refused]
        chosen, broken = _parsing(Source(text), compatible(fixes))
        refused += broken
        after = apply_edits(Source(text), (edit for fix in chosen for edit in fix.edits))
        if after in seen:
            if not broken:
                break
            continue
        seen.add(after)
        text, applied = after, applied + len(chosen)
    return Fixed(text, applied, tuple(refused))


def _parsing(source: Source, fixes: list[Fix]) -> tuple[list[Fix], list[Fix]]:
    """Part the fixes into those after which the text parses, and those that would break it."""
    if parses(apply_edits(source, (edit for fix in fixes for edit in fix.edits))):
        return fixes, []
    good: list[Fix] = []
    broken: list[Fix] = []
    for fix in fixes:
        edits = [edit for one in [*good, fix] for edit in one.edits]
        (good if parses(apply_edits(source, edits)) else broken).append(fix)
    return good, broken


def parses(text: str) -> bool:
    """Say whether a text is Python that can be analysed."""
    try:
        Source(text).parse()
    except SourceError:
        return False
    return True
