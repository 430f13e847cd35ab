"""An analyzer that leaves out the findings of a baseline."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from drygrad.baseline import Baseline, BaselineError, keys_of
from drygrad.lsp.checking import Analyzes
from drygrad.static.engine import Analysis
from drygrad.static.source import Source

log = logging.getLogger(__name__)


class WithBaseline:
    """Checks as another analyzer does, and drops what the baseline knows of the file."""

    def __init__(self, analyzer: Analyzes, baseline: Baseline, path: Path) -> None:
        self._analyzer, self._baseline, self._path = analyzer, baseline, path
        self.known, self.links = analyzer.known, analyzer.links

    def check(self, source: Source) -> Analysis:
        """Return the new findings of a version."""
        self._analyzer.known, self._analyzer.links = self.known, self.links
        analysis = self._analyzer.check(source)
        new = self._baseline.unknown(self._path, keys_of(source, analysis.findings))
        return replace(analysis, findings=tuple(f for f, is_new in zip(analysis.findings, new, strict=True) if is_new))


def with_baseline(analyzer: Analyzes, file: Path, path: Path) -> Analyzes:
    """Return the analyzer with a baseline; a file that is none leaves it as it is."""
    try:
        return WithBaseline(analyzer, Baseline.load(file), path)
    except BaselineError as error:
        log.warning("all findings are shown: %s", error)
        return analyzer
