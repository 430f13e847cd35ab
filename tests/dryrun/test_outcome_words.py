"""How a run's end is told: with the device that its tensors were on, what was guessed, and why it ended so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_dry_runs import FakeSeen

from drygrad.dryrun.outcome_words import ended
from drygrad.dryrun.result import Coverage, Input, Outcome, Result
from drygrad.lsp.run_words import words_of
from drygrad.model import Finding, Severity, Span


def result(outcome: Outcome = "passed", device: str = "sim", **fields: Any) -> Result:
    return Result(outcome, device, seconds=0.12, **fields)


def given(*sources: str) -> dict[str, Any]:
    return {"inputs": tuple(Input("x", "1", source) for source in sources)}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "passed on sim"),
        ({"tensors_on": "cuda"}, "passed on sim"),
        ({"tensors_on": "cpu"}, "passed on the CPU"),
        ({"device": "cpu"}, "passed on the CPU"),
        (given("call", "comment", "constructor", "annotation", "call in test_it.py:4"), "passed on sim"),
        (given("call", "search: Linear expects 8 features"), "passed with guessed inputs on sim"),
        (given("constructor, search"), "passed with guessed inputs on sim"),
        (given("convention"), "passed with guessed inputs on sim"),
        (given("stand-in"), "passed with stand-ins on sim"),
        (given("constructor, search, stand-in: why"), "passed with guessed inputs and stand-ins on sim"),
        (given("call: a search, it says"), "passed on sim"),
        ({"outcome": "unsupported", "reason": "there is no GPU"}, "unsupported: there is no GPU"),
        ({"outcome": "crashed"}, "crashed on sim"),
    ],
)
def test_what_a_run_is_said_to_have_shown(data: dict[str, Any], words: str) -> None:
    assert ended(result(**data)) == words


def seen(outcome: Outcome, *findings: tuple[str, Severity, str], **data: Any) -> FakeSeen:
    told = (Finding(code, "rule", message, severity, Span.of(1, 0, 1, 1)) for code, severity, message in findings)
    return FakeSeen("1", "", 1, result(outcome, **data), tuple(told), frozenset[Path]())


def covering(ran: int, missed: int) -> Coverage:
    return Coverage(frozenset(range(ran)), frozenset(range(ran, ran + missed)))


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (seen("passed", **given("search"), tensors_on="cuda"), "✓ passed with guessed inputs on sim, 0.12 s"),
        (seen("passed", tensors_on="cpu"), "✓ passed on the CPU, 0.12 s"),
        (seen("passed", coverage=covering(14, 6)), "✓ passed on sim, 14 of 20 lines, 0.12 s"),
        (seen("passed", coverage=covering(3, 3)), "◐ passed on sim, 3 of 6 lines, 0.12 s"),
        (seen("crashed", notes=("ran on sim: no GPU found", "it died"), reason="it died"), "✗ crashed: it died"),
        (seen("crashed", notes=("ran on sim: no GPU found",)), "✗ crashed"),
        (seen("unsupported", ("DG601", "info", "a wait"), reason="no Triton"), "✗ not supported here: no Triton"),
        (seen("blocked", ("DG601", "info", "a wait"), ("DG903", "hint", "no network")), "✗ no network"),
        (seen("failed", ("DG601", "info", "a wait"), ("DG101", "error", "overwritten")), "✗ overwritten"),
    ],
)
def test_the_lens_gives_the_reason_of_an_outcome(run: FakeSeen, words: str) -> None:
    assert words_of([run]) == words


def test_of_several_runs_the_one_with_guessed_inputs_speaks() -> None:
    own, guessed = seen("passed"), seen("passed", **given("search"))
    assert words_of([own, guessed]) == "✓ 2 runs passed with guessed inputs on sim, 0.24 s"
