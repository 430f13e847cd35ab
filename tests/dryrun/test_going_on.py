"""Runs that go on behind their first fault: with its best fix, or as if tensors on the wrong device had been moved."""

from __future__ import annotations

from dataclasses import replace

import pytest
from verify_lab import Lab, replaced, written

from drygrad.dryrun.merge import Record
from drygrad.model import Finding

CHAIN = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 6)
        self.b = nn.Linear(6, 3)
    def forward(self, x, y):
        h = self.a(x.double())
        scale = torch.ones(6, dtype=torch.float64)
        h = self.b(h * scale)
        return F.cross_entropy(h, y + 1)
loss = Net()(torch.randn(3, 4), torch.tensor([0, 1, 2]))
"""

DEVICES = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 6)
        self.table = torch.randn(6)
    def forward(self, x):
        noise = torch.randn(x.shape[0], 4)
        h = self.fc(x + noise)
        h = h * (noise[0] + noise[1]).sum(0, keepdim=True)
        mask = torch.ones(6)
        h = h * mask
        return (h + self.table).abs().log()
net = Net().to("cuda")
net(torch.randn(3, 4, device="cuda"))
"""


def lines(findings: list[Finding] | tuple[Finding, ...], text: str) -> list[tuple[str, str, str]]:
    """Return code, severity and the text of the line of each finding."""
    rows = text.splitlines()
    return [(f.code, f.severity, rows[f.span.start.line - 1].strip()) for f in findings]


def test_what_comes_behind_a_fault_is_told_where_a_fix_of_it_lets_the_run_go_on(lab: Lab) -> None:
    source = written(CHAIN)
    found = [f for f in lab.tried(source, "Net.forward", budget=120.0) if f.witness == "dry-run"]
    assert lines(found, source.text) == [
        ("DG317", "error", "h = self.a(x.double())"),
        ("DG317", "warning", "h = self.b(h * scale)"),
        ("DG302", "warning", "return F.cross_entropy(h, y + 1)"),
    ]
    first, second, third = found
    at = [finding.span.start.line for finding in found]
    assert "(after" not in first.message
    assert second.message.endswith(f"(after the fix on line {at[0]})")
    assert third.message.endswith(f"(after the fixes on lines {at[0]}, {at[1]})")
    (edit,) = second.fixes[0].edits
    assert source.slice(edit.span) == "h * scale"
    assert second.fixes[0].verified is None  # what comes behind can only be mended by what changes its meaning
    assert third.fixes[0].verified is True


@pytest.fixture(scope="module")
def behind(lab: Lab) -> Record:
    return lab.experimented(written(DEVICES), "Net.forward")


def test_each_tensor_that_the_program_makes_on_the_wrong_device_is_told_by_one_run(behind: Record) -> None:
    assert lines(behind.findings, behind.plan.source.text)[:3] == [
        ("DG203", "error", "noise = torch.randn(x.shape[0], 4)"),
        ("DG204", "warning", "self.table = torch.randn(6)"),
        ("DG203", "warning", "mask = torch.ones(6)"),
    ]
    assert len(behind.findings) == 3


def test_a_fix_of_one_of_them_is_tried_in_runs_that_go_on_as_well(lab: Lab, behind: Record) -> None:
    wrong = replaced(behind.plan.source, "torch.ones(6)\n", "torch.ones(6) * 1\n")
    findings = [replace(f, fixes=(wrong,)) if "`mask`" in f.message else f for f in behind.findings]
    found = lab.verified(replace(behind, findings=tuple(findings)))
    noise, table, mask = (finding.fixes for finding in found)
    assert noise[0].verified is True
    assert table[0].verified is True
    assert [fix.verified for fix in mask if fix.edits == wrong.edits] == [False]
    assert mask[0].verified is True


def test_a_run_that_ends_with_something_else_is_left_alone(lab: Lab) -> None:
    text = "def f(x):\n    return x.view(5)\nf(torch.ones(4, device='cuda'))\n"
    assert lab.experimented(written(text), "f").plan.options.forgive is False
