"""Run the pairs of programs that break a relation: what is found at each label, and what is said of the right twins.

    python -m accuracy.relations [RELATION...]

A finding counts within two lines of the label, or with an origin there. Its code does not: a reader says whether it
names the fault.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .judging import GRAVE

FOLDER = Path(__file__).parents[1] / "relations"
NEAR = 2


def answer_of(relation: str) -> dict[str, Any]:
    """Return what a run of all programs of a relation says."""
    options = ["--device", "sim", "--python", sys.executable, "--timeout", "60", "--output-format", "json"]
    command = [sys.executable, "-m", "drygrad", "run", ".", *options, "--no-progress"]
    done = subprocess.run(command, cwd=FOLDER / relation, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return json.loads(done.stdout)


def is_near(finding: dict[str, Any], line: int) -> bool:
    """Say whether a finding, or an origin of it, is at a label."""
    starts = [finding["start"], *(related["start"] for related in finding["related"] if "start" in related)]
    return any(abs(start["line"] - line) <= NEAR for start in starts)


def findings_in(answer: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """Yield what is found in a file, hints left out."""
    yield from (f for f in answer["findings"] if Path(f["path"]).name == name and f["severity"] != "hint")


def examine(relation: str, labels: dict[str, Any]) -> tuple[int, int, int]:
    """Print what is found of a relation's pairs; return how many there are, are found, and have an accused twin."""
    answer = answer_of(relation)
    pairs = {key.partition("/")[2]: label for key, label in labels.items() if key.startswith(f"{relation}/")}
    found = accused = 0
    for number, label in sorted(pairs.items()):
        near = [f for f in findings_in(answer, f"{number}_broken.py") if is_near(f, label["line"])]
        alarms = [f for f in findings_in(answer, f"{number}_right.py") if f["severity"] in GRAVE]
        found, accused = found + bool(near), accused + bool(alarms)
        print(f"{relation}/{number}:{label['line']}: {label['what']}")
        for mark, findings in (("", near), ("ON THE TWIN ", alarms)):
            for f in findings:
                print(f"  {mark}{f['severity']} {f['code']} in {f['start']['line']}: {f['message']}")
    print(f"{relation}: {found} of {len(pairs)}, {accused} twins with an error or a warning", flush=True)
    return len(pairs), found, accused


def main() -> int:
    """Run the command."""
    labels: dict[str, Any] = json.loads((FOLDER / "labels.json").read_text("utf-8"))
    known = sorted({key.partition("/")[0] for key in labels})
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("relations", nargs="*", metavar="RELATION", default=known)
    chosen: list[str] = parser.parse_args().relations
    totals = [examine(relation, labels) for relation in chosen]
    pairs, found, accused = map(sum, zip(*totals, strict=True))
    print(f"all: {found} of {pairs}, {accused} twins with an error or a warning")
    return 0


if __name__ == "__main__":
    sys.exit(main())
