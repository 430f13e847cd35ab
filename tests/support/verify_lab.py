"""One worker that runs programs and tries the fixes of what it finds in them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

from drygrad.dryrun.merge import Record, merge
from drygrad.dryrun.plan import Missing, RunOptions
from drygrad.dryrun.service import DryRuns, Home
from drygrad.dryrun.targets import target_named
from drygrad.model import Edit, Finding, Fix, Span
from drygrad.settings import Settings
from drygrad.static.engine import Analyzer
from drygrad.static.source import Source

IMPORTS = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def written(program: str) -> Source:
    """Return a program below torch's usual imports."""
    return Source(IMPORTS + dedent(program).lstrip("\n"))


def replaced(source: Source, old: str, new: str) -> Fix:
    """Return a fix by hand: the first occurrence of a text replaced."""
    start = source.text.index(old)
    span = Span(source.position(start), source.position(start + len(old)))
    return Fix("by hand", (Edit(span, new),), "safe")


def verdict(lab: Lab, program: str, old: str, new: str, qualname: str | None = None) -> bool | None:
    """Return whether a repair by hand of a run's first finding is verified."""
    source = written(program)
    found = lab.tried(source, qualname, own=replaced(source, old, new), severities=("error", "warning", "info"))
    return next(fix.verified for finding in found for fix in finding.fixes if fix.title == "by hand")


class Lab:
    """One worker for all tests."""

    def __init__(self, folder: Path, loop: asyncio.AbstractEventLoop) -> None:
        self._folder, self._loop = folder, loop
        self._runs = DryRuns()

    def close(self) -> None:
        self._loop.run_until_complete(self._runs.close())

    def run(self, source: Source, qualname: str | None = None) -> tuple[Record, Home]:
        return self._loop.run_until_complete(_seen(self._runs, self._folder, source, qualname))

    def experimented(
        self,
        source: Source,
        qualname: str | None = None,
        *codes: str,
        seconds: float = 60.0,
        ranks: int | None = None,
    ) -> Record:
        """Return a run on the simulated GPU with what experiments have found that follow: all, or some."""
        settings = Settings(experiments=codes or ("DG",))
        seen = _seen(self._runs, self._folder, source, qualname, "sim", ranks)
        record, home = self._loop.run_until_complete(seen)
        return self._loop.run_until_complete(self._runs.experiment(record, home, settings, seconds))

    def verified(self, record: Record, budget: float = 120.0) -> Sequence[Finding]:
        """Return the findings of a record with their fixes tried."""
        home = Home(Path(sys.executable), self._folder)
        static = Analyzer().check(record.plan.source).findings
        verifying = self._runs.verify(record, static, home, Settings(), budget)
        return self._loop.run_until_complete(verifying).findings

    def verdict_on(self, record: Record, old: str, new: str) -> bool | None:
        """Return whether a repair by hand of the last finding of a record is verified."""
        last = replace(record.findings[-1], fixes=(replaced(record.plan.source, old, new),))
        home = Home(Path(sys.executable), self._folder)
        verifying = self._runs.verify(replace(record, findings=(last,)), (), home, Settings(), 60.0)
        (finding,) = self._loop.run_until_complete(verifying).findings
        return next(fix.verified for fix in finding.fixes if fix.title == "by hand")

    def tried(
        self,
        source: Source,
        qualname: str | None = None,
        *,
        own: Fix | None = None,
        budget: float = 30.0,
        severities: Sequence[str] = ("error", "warning"),
    ) -> list[Finding]:
        """Return the findings of both witnesses with fixes tried; ``own`` takes the place of the first's."""
        static: Sequence[Finding] = () if own is not None else Analyzer().check(source).findings
        record, home = self.run(source, qualname)
        if own is not None:
            first = replace(record.findings[0], fixes=(own,))
            record = replace(record, findings=(first, *record.findings[1:]))
        verifying = self._runs.verify(record, static, home, Settings(), budget)
        merged = merge(static, [self._loop.run_until_complete(verifying)], source).findings
        return [finding for finding in merged if finding.severity in severities]


async def _seen(
    runs: DryRuns,
    folder: Path,
    source: Source,
    qualname: str | None,
    device: str | None = None,
    ranks: int | None = None,
) -> tuple[Record, Home]:
    path = folder / "program.py"
    path.write_text(source.text, encoding="utf-8")
    target = target_named(source, qualname)
    assert target is not None
    home = Home(Path(sys.executable), folder)
    device = device or ("sim" if "cuda" in source.text else "cpu")
    options = RunOptions(device=device, root=folder, ranks=ranks)
    records = await runs.dry_run(source, path, target, home, options, Settings())
    assert not isinstance(records, Missing)
    return records[0], home


def outcome_of(lab: Lab, program: str, code: str) -> tuple[str, list[tuple[str, int, str]]]:
    """Return how one experiment with a passing ``f`` ended, and what was found."""
    record = lab.experimented(written(program), "f", code)
    assert record.result.outcome == "passed", record.result.notes
    (one,) = record.result.tried
    return one.outcome, [(f.code, f.span.start.line, f.severity) for f in record.findings]
