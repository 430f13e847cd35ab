"""Comments that keep a finding quiet, and those that have nothing left to keep quiet.

``# drygrad: ignore[DG101]`` and ``# noqa: DG101`` hold for the statement whose lines they stand on,
``# drygrad: ignore`` for all rules, ``# drygrad: ignore-file[DG101]`` for the file. A rule's name
between the brackets does as well as its code. Reading them must cost nothing where there are none: one search finds the
lines that may hold one, and only their statements are tokenized.
"""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from drygrad.model import Edit, Finding, Fix, Position, Span
from drygrad.settings import Settings
from drygrad.static.registry import SEEN_IN_RUNS, all_rules
from drygrad.static.rules.reports.unused_suppression import UnusedSuppression
from drygrad.static.source import Source
from drygrad.static.statements import Lines, lines_of

_CANDIDATE = re.compile(r"#[^\n\r]*?(?:drygrad:[ \t]*ignore|noqa[ \t]*:)", re.IGNORECASE)
_IGNORE = re.compile(
    r"#\s*drygrad:\s*ignore(?P<file>-file)?(?:\[(?P<codes>[^\]#]*)\]|(?![\w\[-]))(?P<rest>[^#]*)", re.IGNORECASE
)
_NOQA = re.compile(r"#\s*noqa\s*:\s*(?P<codes>[A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*)", re.IGNORECASE)


@dataclass(frozen=True)
class Suppression:
    """One comment, or one part of a comment: where it stands and the codes it names (None: all)."""

    span: Span
    codes: tuple[str, ...] | None
    kind: str
    lines: Lines | None = None
    reason: str = ""

    def covers(self, finding: Finding) -> bool:
        """Say whether the comment asks for silence about a finding's kind of fault."""
        return self.codes is None or any(finding.code.startswith(code) for code in self.codes)


def apply(source: Source, tree: ast.Module, findings: Iterable[Finding], settings: Settings) -> tuple[Finding, ...]:
    """Return the findings that no comment silences, and a DG904 for each comment that silences nothing."""
    suppressions = list(read(source, tree))
    if not suppressions:
        return tuple(findings)
    kept: list[Finding] = []
    used: set[tuple[Suppression, str]] = set()
    for finding in findings:
        covering = [s for s in suppressions if s.covers(finding) and _reaches(s, finding.span.start.line)]
        used.update((s, code) for s in covering for code in s.codes or () if finding.code.startswith(code))
        if not covering:
            kept.append(finding)
    unused = _unused(suppressions, used, settings, source)
    return tuple(sorted([*kept, *unused], key=lambda finding: finding.span)) if unused else tuple(kept)


def _reaches(suppression: Suppression, line: int) -> bool:
    return suppression.kind == "file" or (suppression.lines is not None and suppression.lines.holds(line))


def read(source: Source, tree: ast.Module) -> Iterator[Suppression]:
    """Yield the suppressions of a text."""
    previous = 0
    for match in _CANDIDATE.finditer(source.text):
        line = source.position(match.start()).line
        if line == previous:
            continue
        previous = line
        lines = lines_of(tree, source, line)
        comment = _comment(source, lines or Lines(line, line), line)
        if comment:
            yield from _parse(comment, lines)


def _comment(source: Source, lines: Lines, line: int) -> tokenize.TokenInfo | None:
    """Return the comment of a line; what looks like one inside a string is none."""
    texts = iter([source.line_text(number) + "\n" for number in range(lines.first, lines.last + 1)])
    try:
        for token in tokenize.generate_tokens(lambda: next(texts, "")):
            if token.type == tokenize.COMMENT and token.start[0] + lines.first - 1 == line:
                return token._replace(start=(line, token.start[1]), end=(line, token.end[1]))
    except (tokenize.TokenError, SyntaxError):
        return None  # the piece ends in the middle of a block, after its last comment
    return None


def _parse(comment: tokenize.TokenInfo, lines: Lines | None) -> Iterator[Suppression]:
    line, column = comment.start
    for match in _IGNORE.finditer(comment.string):
        kind = "file" if match["file"] else "line"
        codes = None if match["codes"] is None else _codes(match["codes"])
        span = Span.of(line, column + match.start(), line, column + len(comment.string[: match.end()].rstrip()))
        yield Suppression(span, codes, kind, lines, match["rest"].strip())
    for match in _NOQA.finditer(comment.string):
        codes = tuple(code for code in _codes(match["codes"]) if code.startswith("DG"))
        if codes:
            yield Suppression(Span.of(line, column + match.start(), line, column + match.end()), codes, "noqa", lines)


def _codes(text: str) -> tuple[str, ...]:
    named = {rule.name: rule.code for rule in all_rules()}
    return tuple(named.get(word.lower(), word.upper()) for word in re.split(r"[,\s]+", text) if word)


def _unused(
    suppressions: list[Suppression], used: set[tuple[Suppression, str]], settings: Settings, source: Source
) -> list[Finding]:
    if not settings.enabled(UnusedSuppression.code):
        return []
    found: list[Finding] = []
    for suppression in suppressions:
        if suppression.kind != "line" or suppression.codes is None:
            continue
        idle = [c for c in suppression.codes if (suppression, c) not in used and _could_be_used(c, settings)]
        if idle:
            found.append(_finding(suppression, idle, settings, source))
    return found


def _could_be_used(code: str, settings: Settings) -> bool:
    """Say whether a static rule of this code was on, and no run could see more: its silence proves the comment idle."""
    rules = [rule for rule in all_rules() if rule.code.startswith(code) and not rule.reports]
    if any(rule.run_only or rule.code in SEEN_IN_RUNS for rule in rules):
        return False
    return any(settings.wants(rule) for rule in rules)


def _finding(suppression: Suppression, idle: list[str], settings: Settings, source: Source) -> Finding:
    rule = UnusedSuppression
    return Finding(
        rule.code,
        rule.name,
        f"unused suppression of {' and '.join(idle)}",
        settings.severity_of(rule.code, rule.severity),
        suppression.span,
        fixes=(_fix(suppression, idle, source),),
        tags=rule.tags,
    )


def _fix(suppression: Suppression, idle: list[str], source: Source) -> Fix:
    kept = [code for code in suppression.codes or () if code not in idle]
    if kept:
        reason = f" {suppression.reason}" if suppression.reason else ""
        text = f"# drygrad: ignore[{', '.join(kept)}]{reason}"
        return Fix(f"Remove {', '.join(idle)} from the comment", (Edit(suppression.span, text),), "safe")
    if suppression.reason:
        return Fix("Remove the suppression", (Edit(suppression.span, f"# {suppression.reason}"),), "safe")
    return Fix("Remove the suppression", (Edit(_with_blanks(suppression.span, source), ""),), "safe")


def _with_blanks(span: Span, source: Source) -> Span:
    """Return the span to delete: with the blanks before it, and its whole line if nothing else stands there."""
    line, column = span.start
    text = source.line_text(line)
    before, after = text[:column].rstrip(), text[span.end.column :].strip()
    if before or after:
        return Span(Position(line, column if after and not before else len(before)), span.end)
    if line < len(source.lines):
        return Span.of(line, 0, line + 1, 0)
    return Span(Position(line, 0), span.end)
