"""What a constructor does to the object that it makes."""

from __future__ import annotations

import ast

import pytest

from drygrad.static.facts.module import ModuleFacts
from drygrad.static.facts.values import Object

CLASS = """
import torch.nn as nn

class Base(nn.Module):
    def __init__(self):
        super().__init__()
        {base}

    def place(self):
        self.to("cuda")

class Net(Base):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 1)
        {net}

net = Net()
"""


@pytest.mark.parametrize(
    ("base", "net", "device", "training"),
    [
        ("pass", "pass", "cpu", None),
        ("pass", "self.to('cuda:0')", "cuda:0", None),
        ("pass", "self.cuda()", "cuda", None),
        ("pass", "self.place()", "cuda", None),
        ("self.to('cuda')", "pass", "cuda", None),
        ("pass", "self.to(unknown())", None, None),
        ("pass", "self.eval()", "cpu", False),
    ],
)
def test_an_object_is_where_its_constructor_has_put_it(
    base: str, net: str, device: str | None, training: bool | None
) -> None:
    text = CLASS.format(base=base, net=net)
    made = ModuleFacts(ast.parse(text), text).globals["net"]
    assert isinstance(made, Object)
    assert (made.device, made.training) == (device, training)
