"""The rows of the seeds: what the static witness finds in complete programs is what their comments say, no more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from drygrad.static.engine import Analyzer
from drygrad.static.source import read

SEEDS = Path(__file__).resolve().parent
PROGRAMS = sorted(SEEDS.glob("s[0-9][0-9]_*.py"))
EXPECTATION = re.compile(r"# expect: (?P<expected>.+)$")


def expected(line: str) -> list[str]:
    match = EXPECTATION.search(line)
    return [] if match is None else [item.strip() for item in match["expected"].split(",")]


@pytest.mark.parametrize("path", PROGRAMS, ids=[path.stem for path in PROGRAMS])
def test_a_seed_gives_the_findings_that_its_comments_say(path: Path) -> None:
    source = read(path)
    wanted = {(n, item) for n, line in enumerate(source.lines, 1) for item in expected(line.rstrip())}
    analysis = Analyzer().check(source)
    assert analysis.error is None
    found: set[tuple[int, str]] = set()
    for finding in analysis.findings:
        line, severe = finding.span.start.line, f"{finding.code} {finding.severity}"
        found.add((line, severe if (line, severe) in wanted else finding.code))
    assert found == wanted


def test_there_is_a_program_for_each_row_with_a_static_witness() -> None:
    rows = {path.name[:3] for path in PROGRAMS}
    assert {
        "s01",
        "s02",
        "s03",
        "s05",
        "s06",
        "s07",
        "s08",
        "s09",
        "s12",
        "s14",
        "s15",
        "s17",
        "s18",
        "s19",
        "s20",
        "s21",
    } <= rows
