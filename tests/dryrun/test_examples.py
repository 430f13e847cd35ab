"""From text to findings through the real worker: what the run-only rules' own examples promise, and whole plans."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from plan_harness import source_of
from worker_client import WorkerClient

from drygrad.dryrun.experiments import RANKS
from drygrad.dryrun.findings import findings, missing_finding
from drygrad.dryrun.plan import Experiments, Missing, Plan, RunOptions
from drygrad.dryrun.planning import plan_runs
from drygrad.dryrun.result import Result
from drygrad.dryrun.targets import target_named, targets
from drygrad.fixing import apply_edits
from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.settings import Settings
from drygrad.static.registry import all_rules
from drygrad.static.source import Source

pytestmark = pytest.mark.slow


def examples(kind: str) -> Iterator[object]:
    needs_torch = (rule for rule in all_rules() if rule.run_only and rule.code != "DG905")
    for rule in needs_torch:
        for number, example in enumerate(getattr(rule, kind)):
            yield pytest.param(rule, example, id=f"{rule.code}-{number}")


def seen(
    worker: WorkerClient,
    folder: Path,
    text: str,
    qualname: str | None = None,
    timeout: float = 120.0,
    relation: str | None = None,
) -> list[Finding]:
    """Return what dry runs of a program find: of each target with inputs, of a script if that is all there is."""
    source = Source(dedent(text.removeprefix("\n")))
    path = folder / "program.py"
    path.write_text(source.text, encoding="utf-8")
    chosen = [target_named(source, qualname)] if qualname else [*targets(source)]
    commented = [target for target in chosen if target and target.function]
    device = "sim" if "cuda" in source.text or relation else "cpu"
    ranks = 2 if "torch.distributed" in text else 0
    relation = RANKS if ranks else relation
    tries = Experiments((relation,), timeout, ranks=ranks, rank_seconds=timeout) if relation else None
    found: dict[object, Finding] = {}
    for target in commented or chosen:
        assert target is not None
        options = RunOptions(device, max(1, ranks), root=folder, timeout=timeout, experiments=tries)
        plans = plan_runs(source, path, target, options)
        for finding in _outcome(worker, plans, source):
            found.setdefault((finding.code, finding.span), finding)
    return list(found.values())


def _outcome(worker: WorkerClient, plans: list[Plan] | Missing, source: Source) -> Iterator[Finding]:
    if isinstance(plans, Missing):
        yield from missing_finding(plans, source, Settings())
        return
    for plan in plans:
        result = Result.read(worker.run(plan.as_json()))
        assert result.outcome != "error", result.notes
        yield from findings(result, plan, source, Settings(), "run")


@pytest.mark.parametrize(("rule", "valid"), [*examples("VALID")])
def test_valid(rule: type[Rule], valid: Valid, worker: WorkerClient, tmp_path: Path) -> None:
    found = seen(worker, tmp_path, valid.text, relation=rule.code if rule.relation else None)
    assert [f for f in found if f.code == rule.code or f.severity in ("error", "warning")] == []


@pytest.mark.parametrize(("rule", "invalid"), [*examples("INVALID")])
def test_invalid(rule: type[Rule], invalid: Invalid, worker: WorkerClient, tmp_path: Path) -> None:
    found: list[Finding] = []
    told: list[Finding] = []
    for timeout in (1.0, 10.0, 120.0) if rule.code == "DG902" else (120.0,):  # what hangs has more time to come there
        relation = rule.code if rule.relation else None
        told = seen(worker, tmp_path, invalid.text, timeout=timeout, relation=relation)
        found = [f for f in told if f.code == rule.code]
        if found:
            break
    assert len(found) == invalid.count, told
    assert found[0].severity == (invalid.severity or rule.severity)
    if invalid.at:
        assert (*found[0].span.start, *found[0].span.end) == invalid.at
    if invalid.fixed is not None:
        source = source_of(invalid.text)
        assert apply_edits(source, found[0].fixes[0].edits) == source_of(invalid.fixed).text


SETUP = """\
import torch
import torch.nn as nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        assert x.shape == (8, 4)
        assert torch.is_grad_enabled() == {grad}
        return self.layer(x)

def evaluate(model, loader):
    with torch.{mode}():
        for _ in range(2):
            for x, _ in loader:
                print("first")
                x = x + 0
                model(x)

if __name__ == "__main__":
    print("never", open("missing.txt").read())
    loader = [(torch.randn(8, 4), 1)]
    evaluate(Net(), loader)
"""


@pytest.mark.parametrize(("mode", "grad"), [("no_grad", False), ("enable_grad", True)])
def test_a_call_inside_a_loop_and_a_context(mode: str, grad: bool, worker: WorkerClient, tmp_path: Path) -> None:
    source = Source(SETUP.format(mode=mode, grad=grad))
    target = target_named(source, "Net.forward")
    assert target is not None
    plans = plan_runs(source, tmp_path / "program.py", target, RunOptions(device="cpu", root=tmp_path))
    assert isinstance(plans, list)
    result = Result.read(worker.run(plans[0].as_json()))
    assert (result.outcome, result.error) == ("passed", None)
    assert result.backward == ("probe" if grad else "none")
    assert [(given.name, given.source) for given in result.inputs] == [("self", "call"), ("x", "call")]
