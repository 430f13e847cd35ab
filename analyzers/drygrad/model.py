"""The words every room uses: rules, findings, fixes, edits, spans.

Positions count lines from 1 and columns from 0, in characters (code points), as ``ast`` and ``tokenize`` users expect;
a span's end is exclusive. Outputs that count otherwise (JSON from 1, LSP in UTF-16 units) convert at their own border.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cache
from inspect import cleandoc
from typing import ClassVar, Literal, NamedTuple

Severity = Literal["error", "warning", "info", "hint"]
Safety = Literal["safe", "unsafe"]
Witness = Literal["static", "dry-run"]
Status = Literal["possible", "confirmed"]
Tag = Literal["unnecessary", "deprecated"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info", "hint")
"""From the gravest to the mildest."""


class Position(NamedTuple):
    """A place between two characters: line from 1, column from 0 in code points."""

    line: int
    column: int

    def shifted(self, lines: int) -> Position:
        """Return the position so many lines further down (up, if negative)."""
        return Position(self.line + lines, self.column)


class Span(NamedTuple):
    """A stretch of text; the end is exclusive."""

    start: Position
    end: Position

    @classmethod
    def of(cls, line: int, column: int, end_line: int, end_column: int) -> Span:
        """Build a span from its four numbers."""
        return cls(Position(line, column), Position(end_line, end_column))

    def shifted(self, lines: int) -> Span:
        """Return the span so many lines further down (up, if negative)."""
        return Span(self.start.shifted(lines), self.end.shifted(lines))

    def overlaps(self, other: Span) -> bool:
        """Say whether the two share a character, or are the same empty span."""
        return self == other or (self.start < other.end and other.start < self.end)


@dataclass(frozen=True, slots=True)
class Edit:
    """The replacement of one span; ``path`` is None for the file that the finding is in."""

    span: Span
    new_text: str
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Fix:
    """Edits that remove a finding together; they never overlap.

    ``safe`` means: where the code worked before, outputs and effects stay equal.
    ``verified`` is None until a dry run has tried the fix.
    """

    title: str
    edits: tuple[Edit, ...]
    safety: Safety = "unsafe"
    verified: bool | None = None


@dataclass(frozen=True, slots=True)
class Related:
    """A second place that explains a finding ("saved here"); ``path`` is None for the same file."""

    message: str
    span: Span
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One occurrence of a fault; ``path`` is None for the file that was checked or run.

    Where it is another one, that is the file which its related places and edits without a path are in.
    """

    code: str
    name: str
    message: str
    severity: Severity
    span: Span
    related: tuple[Related, ...] = ()
    fixes: tuple[Fix, ...] = ()
    detail: str | None = None
    witness: Witness = "static"
    status: Status = "possible"
    run: str | None = None
    tags: tuple[Tag, ...] = ()
    path: str | None = None

    def shifted(self, lines: int) -> Finding:
        """Return the finding with every span in this file moved down by so many lines."""
        if lines == 0:
            return self
        return replace(
            self,
            span=self.span.shifted(lines),
            related=tuple(r if r.path else replace(r, span=r.span.shifted(lines)) for r in self.related),
            fixes=tuple(_shift_fix(fix, lines) for fix in self.fixes),
        )


def _shift_fix(fix: Fix, lines: int) -> Fix:
    edits = tuple(e if e.path else replace(e, span=e.span.shifted(lines)) for e in fix.edits)
    return replace(fix, edits=edits)


@dataclass(frozen=True, slots=True)
class Valid:
    """A text in which the rule must find nothing. ``target_torch`` runs it for that version."""

    text: str
    target_torch: str | None = None


@dataclass(frozen=True, slots=True)
class Invalid:
    """A text in which the rule must find the fault.

    ``fixed`` is the whole text after the first fix (None: no fix is offered); ``at`` is
    ``(line, column, end_line, end_column)`` of the first finding; ``count`` the number of findings.
    """

    text: str
    fixed: str | None = None
    at: tuple[int, int, int, int] | None = None
    count: int = 1
    severity: Severity | None = None
    target_torch: str | None = None


class Rule:
    """One kind of fault.

    The docstring of a subclass is its documentation, in fixed sections; VALID and INVALID are its tests.
    Methods named ``visit_*`` subscribe to the node type that annotates their first parameter
    (see ``drygrad.static.registry``).
    """

    code: ClassVar[str]
    name: ClassVar[str]
    since: ClassVar[str]
    severity: ClassVar[Severity] = "warning"
    torch: ClassVar[tuple[str | None, str | None]] = (None, None)
    """The first torch version that the rule holds for, and the first that it no longer holds for."""
    tags: ClassVar[tuple[Tag, ...]] = ()
    reports: ClassVar[bool] = False
    """True for what drygrad says of its own work or of the text as a whole; such a rule has no visitor."""
    run_only: ClassVar[bool] = False
    """True for a fault that only a dry run can see; it has no visitor, and its examples are programs to run."""
    costs: ClassVar[frozenset[str]] = frozenset()
    """What a hint costs each time, as runs count it: ``sync`` (a wait), ``d2h`` and ``h2d`` (copies).

    Where a run has counted it, the hint is an info.
    """
    relation: ClassVar[str] = ""
    """What must hold between two runs, in a few words, where the fault is that it does not: what experiments try."""
    VALID: ClassVar[list[Valid]] = []
    INVALID: ClassVar[list[Invalid]] = []

    @classmethod
    def has_fix(cls) -> bool:
        """Say whether the rule offers a fix, as its examples show."""
        return any(invalid.fixed is not None for invalid in cls.INVALID)

    @classmethod
    def documentation(cls) -> RuleDocumentation:
        """Return the docstring, taken apart at its headings."""
        return parse_documentation(cleandoc(cls.__doc__ or ""))


@dataclass(frozen=True, slots=True)
class RuleDocumentation:
    """A rule's docstring: its text, and the sections by heading."""

    text: str
    sections: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def summary(self) -> str:
        """The first sentence of "What it does"."""
        return first_sentence(self.sections.get("What it does", ""))


def first_sentence(text: str, room: int = 0) -> str:
    """Return the first sentence of a text, and those of its paragraph for which there is room."""
    first, *others = re.split(r"(?<=\.)\s", " ".join(text.split("\n\n", maxsplit=1)[0].split()))
    for sentence in others:
        if len(first) + 1 + len(sentence) > room or sentence.endswith(":"):
            break
        first += f" {sentence}"
    return first


@cache
def parse_documentation(text: str) -> RuleDocumentation:
    """Take a cleaned docstring apart at its ``## Heading`` lines."""
    pieces = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return RuleDocumentation(text, {h.strip(): b.strip() for h, b in zip(pieces[1::2], pieces[2::2], strict=True)})
