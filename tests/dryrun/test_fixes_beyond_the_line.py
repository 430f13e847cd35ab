"""Fixes of what a helper, a decorator or a loss's own arguments do wrong, tried by the real worker."""

from __future__ import annotations

import pytest
from verify_lab import Lab, written

from drygrad.fixing import apply_edits

pytest.importorskip("torch")

MASKS = "masks = torch.randint(0, 5, (2, 8, 8))\nmasks[:, 0] = 255\nimages = torch.randn(2, 3, 8, 8)\n"

CASES = {
    "a void that a function counts": (
        "DG302",
        "model = nn.Conv2d(3, 5, 1)\n\n\n"
        "def step(images, masks):\n    return F.cross_entropy(model(images), masks)\n\n\n"
        + MASKS
        + "step(images, masks).backward()\n",
        ["F.cross_entropy(model(images), masks, ignore_index=255)"],
    ),
    "a void that a module counts": (
        "DG302",
        "class Trainer:\n    def __init__(self):\n        self.model = nn.Conv2d(3, 5, 1)\n"
        "        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1)\n\n"
        "    def step(self, images, masks):\n        return self.criterion(self.model(images), masks)\n\n\n"
        + MASKS
        + "Trainer().step(images, masks).backward()\n",
        ["nn.CrossEntropyLoss(label_smoothing=0.1, ignore_index=255)"],
    ),
    "an expression beside what another function has made": (
        "DG205",
        "class Scores:\n    def __init__(self, values):\n        self.values = values\n\n\n"
        "def make():\n    return torch.zeros(3)\n\n\n"
        "def score(scores, prior):\n    return (scores.softmax(dim=-1) * prior).sum()\n\n\n"
        "place = getattr(torch, 'device')('cuda')\n"
        "held = Scores(torch.randn(3, requires_grad=True).to(*[place]))\nprior = make()\n"
        "score(held.values, prior).backward()\n",
        ["scores.softmax(dim=-1) * prior.to(scores.device)"],
    ),
}
"""The code of a finding, the program below torch's imports, and what a verified fix writes."""


@pytest.mark.parametrize("name", CASES)
def test_a_fix_holds_and_leaves_no_such_finding(name: str, lab: Lab) -> None:
    code, program, expected = CASES[name]
    source = written(program)
    finding = next(f for f in lab.tried(source) if f.code == code and f.status == "confirmed")
    texts = [apply_edits(source, fix.edits) for fix in finding.fixes if fix.verified]
    assert any(all(part in text for part in expected) for text in texts), texts


def test_a_loss_that_leaves_out_a_class_is_not_told_to_leave_out_another(lab: Lab) -> None:
    program = MASKS + "F.cross_entropy(nn.Conv2d(3, 5, 1)(images), masks, ignore_index=0).backward()\n"
    (finding,) = lab.tried(written(program))
    assert finding.code == "DG302"
    assert not [fix for fix in finding.fixes if "ignore_index" in fix.title]


def test_a_class_too_many_is_not_left_out(lab: Lab) -> None:
    program = "labels = torch.tensor([0, 5, 1])\nF.cross_entropy(torch.randn(3, 5, requires_grad=True), labels)\n"
    (finding,) = lab.tried(written(program))
    assert finding.code == "DG302"
    assert not [fix for fix in finding.fixes if "ignore_index" in fix.title]
