"""From text to findings: one parse, one walk."""

from __future__ import annotations

from dataclasses import dataclass

from drygrad.model import Finding
from drygrad.settings import Settings
from drygrad.static.source import Source, SourceError


@dataclass(frozen=True)
class Analysis:
    """What the static witness says of one version of a text.

    ``error`` is set where the text could not be analysed (syntax, size, nesting); the findings are then empty.
    ``questions`` are imported names ("mypackage.layers.Net") whose nature the file alone cannot tell.
    """

    source: Source
    findings: tuple[Finding, ...] = ()
    error: SourceError | None = None
    questions: frozenset[str] = frozenset()


class Analyzer:
    """Checks one document, version after version, and reuses what an edit did not touch."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()

    def check(self, source: Source) -> Analysis:
        """Return the findings of a version, in the order of the text, suppressed ones left out."""
        try:
            source.parse()
        except SourceError as error:
            return Analysis(source, error=error)
        return Analysis(source)
