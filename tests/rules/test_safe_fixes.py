"""What ``check --fix`` applies is right in every form that it matches: outputs and gradients are as before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from rule_harness import Example
from safe_forms import ELSEWHERE, FORMS, programs
from simulated import Outcome, Simulated

from drygrad.fixing import apply_edits
from drygrad.model import Fix
from drygrad.static.engine import Analyzer
from drygrad.static.registry import all_rules
from drygrad.static.source import Source

pytestmark = pytest.mark.slow

MEASURED = """
def told(value):
    return value.detach().double().cpu().tolist() if isinstance(value, torch.Tensor) else value

torch.manual_seed(1)
parts = [o for o in outputs if isinstance(o, torch.Tensor) and o.requires_grad]
total = sum((torch.where(o.isfinite(), o, 0.0).double() * torch.rand(o.shape).double()).sum() for o in parts)
found = torch.autograd.grad(total, leaves, allow_unused=True) if parts and leaves else []
result = {"outputs": [told(o) for o in outputs], "gradients": [told(g) for g in found]}
"""


@pytest.fixture(scope="module")
def process() -> Iterator[Simulated]:
    process = Simulated()
    yield process
    process.close()


def safe_fixes(program: str, code: str) -> list[Fix]:
    findings = Analyzer().check(Source(program)).findings
    fixes = [fix for finding in findings if finding.code == code for fix in finding.fixes]
    return [fix for fix in fixes if fix.safety == "safe"]


def is_same(before: Any, after: Any) -> bool:
    """Say whether numbers that were finite are as before, wherever they stand."""
    if type(before) is not type(after):
        return False
    if isinstance(before, list):
        return len(before) == len(after) and all(is_same(*pair) for pair in zip(before, after, strict=True))  # pyright: ignore
    if isinstance(before, dict):
        return before.keys() == after.keys() and all(is_same(before[key], after[key]) for key in before)  # pyright: ignore
    if isinstance(before, float) and not abs(before) < 1e30:
        return True
    return before == pytest.approx(after, rel=1e-4, abs=1e-6)


def assert_kept(before: Outcome, after: Outcome, text: str) -> None:
    assert after.error is None, f"{text}\n{after.error}: {after.message}"
    if before.error is None:
        assert is_same(before.result, after.result), f"{text}\n{before.result}\n{after.result}"


@pytest.mark.parametrize("code", FORMS)
def test_a_safe_fix_keeps_outputs_and_gradients_in_every_form(code: str, process: Simulated) -> None:
    tried = [
        (program, apply_edits(Source(program), fix.edits))
        for program in programs(code)
        for fix in safe_fixes(program, code)
    ]
    assert tried
    before, after = (process.outcomes([text + MEASURED for text in texts]) for texts in zip(*tried, strict=True))
    for one, other, (_, text) in zip(before, after, tried, strict=True):
        assert_kept(one, other, text)


def test_every_rule_with_a_safe_fix_is_tried() -> None:
    found = {
        rule.code
        for rule in all_rules()
        for invalid in (() if rule.run_only else rule.INVALID)
        for finding in Example.of(invalid.text, invalid.target_torch).findings()
        if finding.code == rule.code and any(fix.safety == "safe" for fix in finding.fixes)
    }
    assert found == {*FORMS, *ELSEWHERE}
