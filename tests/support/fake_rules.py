"""Rules for tests of what surrounds rules: an analysis that finds words, so that no real rule must be named."""

from __future__ import annotations

import re
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Fix, Related, Severity, Span
from drygrad.settings import Settings
from drygrad.static.engine import Analysis
from drygrad.static.source import Source, SourceError

WORDS: dict[str, tuple[str, Severity, str | None, str | None]] = {
    "bad": ("DG904", "warning", "good", None),
    "worse": ("DG906", "error", None, "better"),
    "meh": ("DG904", "hint", None, None),
}
"""The code, the severity, the safe and the unsafe replacement of each word."""


class WordAnalyzer:
    """Finds words; ``crash`` and ``deep`` make it fail as a bug and as a deep expression would."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()

    def check(self, source: Source) -> Analysis:
        """Return a finding at each known word."""
        try:
            source.parse()
        except SourceError as error:
            return Analysis(source, error=error)
        if "crash" in source.text:
            raise ValueError("a bug in a rule")
        if "deep" in source.text:
            raise RecursionError
        found = [finding for finding in self._findings(source) if self.settings.enabled(finding.code)]
        return Analysis(source, tuple(found))

    def _findings(self, source: Source) -> Iterator[Finding]:
        for match in re.finditer(r"\b(bad|worse|meh)\b", source.text):
            code, severity, safe, unsafe = WORDS[match[1]]
            span = Span(source.position(match.start()), source.position(match.end()))
            first = Span.of(1, 0, 1, 1)
            fixes = [Fix(f"Write {safe}", (Edit(span, safe),), "safe")] if safe else []
            fixes += [Fix(f"Write {unsafe}", (Edit(span, unsafe),), "unsafe")] if unsafe else []
            related = (Related("it begins here", first),)
            severity = self.settings.severity_of(code, severity)
            yield Finding(code, f"{match[1]}-word", f"the word {match[1]}", severity, span, related, tuple(fixes))
