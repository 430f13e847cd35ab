"""What is claimed at the head of a loop holds in every turn, also where it takes many turns to get there."""

from __future__ import annotations

import ast
from itertools import pairwise

import pytest

from drygrad.static.facts.module import ModuleFacts
from drygrad.static.facts.values import Tensor, Value


def value_of(text: str, name: str = "y") -> Value:
    """Return the value of a name at the end of a program."""
    program = "import torch\n" + text
    return ModuleFacts(ast.parse(program), program).globals[name]


def chain(length: int) -> str:
    """Return a loop in which a value takes as many turns to get from the first name to the last."""
    names = [f"a{i}" for i in range(length + 1)]
    begun = " = ".join(names) + " = torch.zeros(3)\n"
    handed = "".join(f"    {new} = {old}\n" for new, old in pairwise(names))
    return f"{begun}for _ in range(100):\n{handed}    {names[-1]} = torch.zeros(3, device='meta')\ny = a0\n"


@pytest.mark.parametrize("length", [1, 2, 3, 5, 12])
def test_a_value_that_is_handed_on_from_name_to_name_is_not_the_first_one(length: int) -> None:
    value = value_of(chain(length))
    assert not isinstance(value, Tensor) or value.device is None


def test_a_loop_within_two_others_is_passed_more_than_once() -> None:
    loop = "for _ in n:\n for _ in n:\n  y = torch.zeros(1)\n  for _ in n:\n   z = y\n   y = unseen(y)\n"
    assert value_of(loop, "z") == value_of("z = unseen(1)\n", "z")


def test_what_no_turn_changes_stays_known() -> None:
    kept = value_of("kept = torch.zeros(3)\n" + chain(12) + "y = torch.relu(kept)\n")
    assert isinstance(kept, Tensor)
    assert (kept.device, kept.shape) == ("cpu", (3,))


def test_the_grad_mode_that_a_turn_leaves_holds_in_the_next() -> None:
    text = "x = torch.rand(3, requires_grad=True)\nfor _ in n:\n    y = x * 2\n    torch.set_grad_enabled(False)\n"
    value = value_of(text)
    assert isinstance(value, Tensor)
    assert value.requires_grad is None


@pytest.mark.parametrize(
    "chosen",
    [
        "torch.nn.CrossEntropyLoss() if n > 1 else torch.nn.BCELoss()",
        "torch.nn.functional.relu if n else torch.nn.functional.gelu",
    ],
)
def test_a_call_of_one_of_several_operations_is_noted_as_none(chosen: str) -> None:
    program = f"import torch\nf = {chosen}\ny = f(p, t)\n"
    tree = ast.parse(program)
    assert isinstance(tree.body[-1], ast.Assign)
    assert tree.body[-1].value not in ModuleFacts(tree, program).recording.calls


def test_a_call_of_one_of_several_modules_of_a_kind_is_noted_without_what_differs() -> None:
    program = "import torch\nf = torch.nn.Linear(3, 4) if n else torch.nn.Linear(3, 5)\ny = f(torch.zeros(2, 3))\n"
    facts = ModuleFacts(ast.parse(program), program)
    (call,) = [call for call in facts.recording.calls.values() if call.operation == "linear"]
    assert call.constant("out_features", None) is ...
