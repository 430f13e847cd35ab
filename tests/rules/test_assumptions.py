"""A finding that rests on something that the file does not show says on what."""

from __future__ import annotations

import pytest
from rule_harness import Example

LOOP = "    for x, y in loader:\n        out = model(x{})\n        F.cross_entropy(out, y).backward()\n"
UNKNOWN = "def train(model, loader):\n    model.cuda()\n"
MADE = "model = nn.Linear(8, 2).cuda()\nloader = torch.utils.data.DataLoader(data)\nif True:\n"
ASSUMED = "if `loader` yields CPU batches"


@pytest.mark.parametrize(("begun", "moved", "assumed"), [(UNKNOWN, "", True), (MADE, "", False)])
def test_a_batch_of_a_loader_that_is_handed_in_may_be_anywhere(begun: str, moved: str, assumed: bool) -> None:
    found = [f for f in Example.of(begun + LOOP.format(moved)).findings() if f.code in ("DG201", "DG205")]
    assert found
    assert all((ASSUMED in finding.message) is assumed for finding in found)
