"""The rows of the seeds that a run witnesses: each program, run on the simulated GPU, gives what its comments say.

``# expect: DG101`` wants a finding at that line that a run has seen; ``# refuted: DG101`` wants that the run disproved
one. A program with neither passes, and no run finds anything worse than a hint.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_harness import environment, program

pytestmark = pytest.mark.slow

SEEDS = Path(__file__).resolve().parents[1] / "data" / "run"
PROGRAMS = sorted(SEEDS.glob("s[0-9][0-9]_*.py"))
COMMENT = re.compile(r"# (?P<kind>expect|refuted): (?P<codes>.+)$")


def commented(path: Path, kind: str) -> set[tuple[int, str]]:
    lines = path.read_text(encoding="utf-8").splitlines()
    matches = ((number, match) for number, line in enumerate(lines, 1) if (match := COMMENT.search(line)))
    return {(n, item.strip()) for n, m in matches if m["kind"] == kind for item in m["codes"].split(",")}


@pytest.fixture(scope="module")
def answer() -> dict[str, Any]:
    """What one call says of all programs: they share a worker."""
    how = "--device sim --timeout 6 --experiment-time 0 --output-format json"
    options = (*how.split(), "--python", sys.executable)
    command = program("run", str(SEEDS), *options)
    done = subprocess.run(command, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert done.returncode == 1, done.stderr.decode()
    return json.loads(done.stdout)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_run_witnesses_what_the_seed_says(path: Path, answer: dict[str, Any]) -> None:
    findings = [finding for finding in answer["findings"] if finding["path"] == str(path)]
    runs = [run for run in answer["runs"] if run["target"].partition("::")[0] == str(path)]
    assert runs
    assert {run["device"] for run in runs} == {"sim"}
    wanted, found = commented(path, "expect"), set[tuple[int, str]]()
    for finding in (f for f in findings if f["witness"] == "dry-run"):
        line, severe = finding["start"]["line"], f"{finding['code']} {finding['severity']}"
        found.add((line, severe if (line, severe) in wanted else finding["code"]))
    assert found == wanted
    refuted = {(each["line"], each["code"]) for run in runs for each in run["refuted"]}
    assert refuted == commented(path, "refuted")
    assert [f for f in findings if (f["start"]["line"], f["code"]) in refuted] == []
    if not wanted:
        assert {run["outcome"] for run in runs} == {"passed"}


def test_there_is_a_program_for_each_row_with_a_run_witness() -> None:
    rows = {path.name[:3] for path in PROGRAMS}
    assert rows == {f"s{number:02}" for number in (1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 14, 19, 20, 21)}
