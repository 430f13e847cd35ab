"""What flows through an ``nn.Sequential``."""

from __future__ import annotations

import ast

from drygrad.static.facts.events import InplaceWrite, ShapeMismatch
from drygrad.static.facts.module import ModuleFacts
from drygrad.static.facts.values import Tensor

HEAD = "import torch\nfrom torch import nn\n"


def facts_of(text: str) -> ModuleFacts:
    return ModuleFacts(ast.parse(HEAD + text), HEAD + text)


def named(facts: ModuleFacts, name: str) -> Tensor:
    value = facts.globals[name]
    assert isinstance(value, Tensor)
    return value


def test_layers_behind_a_mismatch_do_not_hide_it() -> None:
    facts = facts_of("""
net = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(5, 2), nn.ReLU(), nn.Linear(2, 1))
y = net(torch.randn(3, 8))
""")
    (event,) = (e for e in facts.recording.events.values() if isinstance(e, ShapeMismatch))
    assert event.call is not None
    assert event.call.module is not None
    assert isinstance(event.call.module.node, ast.Call)
    assert ast.unparse(event.call.module.node) == "nn.Linear(5, 2)"


def test_an_inner_layer_in_place_leaves_the_input_alone() -> None:
    facts = facts_of("""
net = nn.Sequential(nn.Linear(8, 4), nn.ReLU(inplace=True))
x = torch.randn(3, 8)
y = net(x)
z = x
""")
    assert named(facts, "z").shape == (3, 8)
    assert named(facts, "y").shape == (3, 4)
    assert not any(isinstance(e, InplaceWrite) for e in facts.recording.events.values())


def test_the_first_layer_in_place_overwrites_the_input() -> None:
    facts = facts_of("x = torch.randn(3, 8)\ny = nn.Sequential(nn.ReLU(inplace=True))(x)\n")
    assert any(isinstance(e, InplaceWrite) for e in facts.recording.events.values())
