"""Examine programs made from bug reports: which faults are found at the culprit's line, and what is said of the twins.

    python -m accuracy.reported FOLDER...

Their authors know no rule, so that nothing says which code is right: a reader says whether a finding names the fault.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from drygrad.model import Finding

from .examining import PARALLEL, Examined, Examiner
from .judging import GRAVE, NO_CLAIM, is_at
from .programs import SCRIPT, Program

HEADER = re.compile(r"# (?P<key>source|target|truth): (?P<value>.*)")
CULPRIT = re.compile(r"\s*# culprit\b.*$")


@dataclass(frozen=True)
class Report:
    """A faulty program and its twin; ``line`` is the culprit's."""

    name: str
    faulty: Program
    fixed: Program
    line: int
    truth: str


def reports(folder: Path) -> Iterator[Report]:
    """Yield the pairs of a folder."""
    for fixed in sorted(folder.glob("*_fixed.py")):
        path = fixed.with_name(fixed.name.replace("_fixed.py", ".py"))
        lines = path.read_text(encoding="utf-8").splitlines()
        said = {match["key"]: match["value"] for line in lines if (match := HEADER.fullmatch(line))}
        (culprit,) = (number for number, line in enumerate(lines, 1) if CULPRIT.search(line))
        target = said["target"].split()[0]
        faulty, twin = (_program(each, None if target == SCRIPT else target) for each in (path, fixed))
        yield Report(path.stem, faulty, twin, culprit, said["truth"])


def _program(path: Path, target: str | None) -> Program:
    """Read a program, its lines where they are, without what is said of it."""
    lines = path.read_text(encoding="utf-8").splitlines()
    end = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    kept = [*["#"] * end, *(CULPRIT.sub("", line) for line in lines[end:])]
    return Program(path, "\n".join(kept) + "\n", target, None, frozenset())


async def _examine(chosen: list[Report]) -> None:
    slots = asyncio.Semaphore(PARALLEL)
    checked = seen = alarms = 0
    async with Examiner() as examiner:

        async def one(report: Report) -> None:
            nonlocal checked, seen, alarms
            async with slots:
                faulty, fixed = await examiner.examine(report.faulty), await examiner.examine(report.fixed)
            at = _at(report, faulty, faulty.static), _at(report, faulty, faulty.merged.findings)
            alarm = [f for f in fixed.merged.findings if f.severity in GRAVE and f.code not in NO_CLAIM]
            checked, seen, alarms = checked + bool(at[0]), seen + bool(at[0] or at[1]), alarms + bool(alarm)
            print(f"{report.name}:{report.line}: {report.truth}")
            for finding in at[1] or at[0]:
                print(f"  {finding.severity} {finding.code} [{finding.witness}] {finding.message}")
            for finding in alarm:
                print(
                    f"  ON THE TWIN {finding.severity} {finding.code} in {finding.span.start.line}: {finding.message}"
                )

        await asyncio.gather(*map(one, chosen))
    print(f"{len(chosen)} pairs: at the culprit {checked} by the check, {seen} by either; {alarms} twins with an alarm")


def _at(report: Report, examined: Examined, findings: Sequence[Finding]) -> list[Finding]:
    claims = (finding for finding in findings if finding.code not in NO_CLAIM)
    return [finding for finding in claims if is_at(finding, report.line, examined.source)]


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    folders: list[Path] = parser.parse_args().folders
    asyncio.run(_examine([report for folder in folders for report in reports(folder)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
