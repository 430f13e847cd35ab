"""Of training steps whose loss may have left its graph, the check says what torch does."""

from __future__ import annotations

from cut_graphs import Program, programs, what_happens

from drygrad.settings import Settings
from drygrad.static.engine import Analyzer
from drygrad.static.source import Source

CODES = ("DG103", "DG105", "DG106")
STRIDE = 61
"""So many programs are left out for one that is run: every part comes with every other one."""


def _said(program: Program) -> bool:
    analysis = Analyzer(Settings(select=CODES)).check(Source(program.text))
    return any(finding.severity in ("error", "warning") for finding in analysis.findings)


def _is_open(program: Program) -> bool:
    """Say whether the text leaves open what is in a loss: an unknown one's other terms, outside of the block."""
    return program.mode == "forward" and program.form in ("criterion", "unknown")


def test_what_is_said_is_what_torch_does() -> None:
    some = [program for program in programs() if not _is_open(program)]
    right = [program for program in some if program.cut in ("none", "cloned", "kept")]
    told = [(what_happens(program.text), _said(program), program) for program in [*some[::STRIDE], *right[::17]]]
    assert {truth for truth, _, _ in told} == {"learns", "cut", "raises"}
    assert [line for line in told if (line[0] != "learns") != line[1]] == []
