"""What is known of the items of lists in lists, once an item has been written or added."""

from __future__ import annotations

import ast

import pytest

from drygrad.static.facts.events import ShapeMismatch
from drygrad.static.facts.module import ModuleFacts


def mismatches(*lines: str) -> list[str]:
    text = "import torch\ndef f(n, kernel, x: torch.Tensor):\n    " + "\n    ".join(lines)
    facts = ModuleFacts(ast.parse(text), text)
    return [event.message for event in facts.recording.events.values() if isinstance(event, ShapeMismatch)]


@pytest.mark.parametrize("made", ["[[torch.zeros(0)]]", "[[torch.zeros(0) for _ in range(n)] for _ in range(n)]"])
@pytest.mark.parametrize("change", ["rows[0][0] = torch.zeros(2, 3)", "rows[0].append(torch.zeros(2, 3))"])
def test_a_changed_item_of_an_item_is_no_longer_known(made: str, change: str) -> None:
    transposed = "rows[0][0].transpose(0, 1)"
    assert mismatches(f"rows = {made}", transposed)
    assert not mismatches(f"rows = {made}", change, transposed)


def test_what_is_no_longer_known_in_a_later_turn_is_not_claimed_of_the_first() -> None:
    """The branch that reads what another turn has written is not taken before."""
    assert not mismatches(
        "rows = [[torch.zeros(0)] * 4 for _ in range(4)]",
        "for i in range(4):",
        "    for j in range(4):",
        "        block = rows[j][i].transpose(0, 1) if i > j else kernel(i, j)",
        "        rows[i][j] = block",
    )


@pytest.mark.parametrize(
    ("kind", "known"), [("nn.Linear", False), ("(list, tuple)", False), ("(list, torch.Tensor)", True)]
)
def test_a_class_of_no_tensors_is_not_taken_for_the_callers_tensor(kind: str, known: bool) -> None:
    text = (
        f"import torch\nfrom torch import nn\ndef f(x: torch.Tensor):\n    if isinstance(x, {kind}):\n        y = x\n"
    )
    facts = ModuleFacts(ast.parse(text), text)
    assert any(node.lineno == 5 and ast.unparse(node) == "x" for node in facts.recording.values) is known
