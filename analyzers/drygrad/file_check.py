"""The check of one file on the disk, with what its project's other files tell: for whoever checks more than is open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from drygrad.baseline import Baseline, keys_of
from drygrad.files import read_file
from drygrad.model import Finding
from drygrad.notebook import is_editable
from drygrad.result_cache import ResultCache, key_of
from drygrad.settings import Settings
from drygrad.static.engine import Analysis, Analyzer
from drygrad.static.lookup.library import library_of
from drygrad.static.lookup.probing import noting
from drygrad.static.rules.reports.syntax_error import SyntaxErrorInText
from drygrad.static.source import Source, SourceError, SourceSyntaxError

MAX_BYTES = 64 << 20
"""No text is that long; a notebook with pictures may come near, and a device never ends."""


@dataclass(frozen=True)
class Conditions:
    """What a check of a file depends on besides its text; ``cache`` is where findings are kept from check to check."""

    path: Path
    settings: Settings
    baseline: Baseline | None = None
    root: Path = Path()
    site_packages: Sequence[str] = ()
    cache: Path | None = None


class FileCheck:
    """The check of one file, again and again as its text is fixed; ``in_cells`` where it is a notebook's."""

    def __init__(self, conditions: Conditions, *, in_cells: bool = False) -> None:
        self._conditions = conditions
        self._in_cells = in_cells
        self._analyzer = Analyzer(conditions.settings)
        self._cache = ResultCache(conditions.cache) if conditions.cache else None
        self._is_complete = True

    def parted(self, source: Source) -> tuple[list[Finding], list[tuple[str, str]]]:
        """Return the findings that the baseline does not know, and the keys of all."""
        found = self._cached(source, self._cache) if self._cache else self._findings(source)
        baseline = self._conditions.baseline
        if baseline is None:
            return found, []
        keys = keys_of(source, found)
        new = baseline.unknown(self._conditions.path, keys)
        return [finding for finding, is_new in zip(found, new, strict=True) if is_new], keys

    def _cached(self, source: Source, cache: ResultCache) -> list[Finding]:
        how = self._conditions
        path, installed = how.path.absolute(), how.site_packages
        key = key_of(source.text, path, how.root, how.settings, installed, in_cells=self._in_cells)
        found = cache.findings(key)
        if found is None:
            self._is_complete = True
            with noting() as rests_on:
                found = self._findings(source)
            if self._is_complete:
                cache.keep(key, found, rests_on)
        return found

    def _findings(self, source: Source) -> list[Finding]:
        """Return the findings: DG906 where the text does not parse. SourceError where it cannot be analysed at all."""
        settings = self._conditions.settings
        analysis = self._analysis(source)
        if isinstance(analysis.error, SourceSyntaxError):
            found = [SyntaxErrorInText.finding(source, analysis.error, settings)]
            return found if settings.enabled(SyntaxErrorInText.code) else []
        if analysis.error:
            raise analysis.error
        return [editable(finding, source) if self._in_cells else finding for finding in analysis.findings]

    def _analysis(self, source: Source) -> Analysis:
        """Check a text; once more with what other files tell of the names that it imports, where they tell anything."""
        how = self._conditions
        path = how.path.absolute()
        installed = tuple(how.site_packages)
        self._analyzer.links = library_of(how.root, installed).links(path)
        analysis = self._analyzer.check(source)
        if not analysis.questions:
            return analysis
        from drygrad.static.lookup.ancestry import ancestry_of  # noqa: PLC0415 - most files ask nothing
        from drygrad.static.lookup.client import Place, look_up  # noqa: PLC0415

        answers = look_up(Place(path, how.root, installed), analysis.questions)
        self._is_complete = answers.keys() >= {*analysis.questions}
        learned = self._analyzer.learn(ancestry_of(answers))
        return self._analyzer.check(source) if learned else analysis


def editable(finding: Finding, source: Source) -> Finding:
    """Return a finding of joined cells with those fixes only that leave the borders of the cells alone."""
    return replace(finding, fixes=tuple(fix for fix in finding.fixes if is_editable(source, fix)))


def read_bounded(path: Path) -> bytes:
    """Return what a file holds; SourceError where that is more than any text has."""
    data = read_file(path, MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise SourceError(f"the file has more than {MAX_BYTES >> 20} MiB")
    return data
