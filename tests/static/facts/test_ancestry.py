"""What other files tell of imported names: asked for where it matters, used when it is known."""

from __future__ import annotations

import ast

from drygrad.static.facts.module import ModuleFacts
from drygrad.static.facts.values import Object
from drygrad.static.lookup.ancestry import ancestry_of
from drygrad.static.lookup.answers import Answer

TEXT = """
import torch
from .models import Net, build, helper
from mylib import layers

model = Net(10).cuda()
other = build()
block = layers.Block()
unused = helper
size = len([1])

class Mine(Net):
    pass

mine = Mine()
"""
MODULE = "torch.nn.modules.module.Module"


def facts(known: dict[str, tuple[str, ...]] | None = None) -> ModuleFacts:
    return ModuleFacts(ast.parse(TEXT), TEXT, known)


def test_names_that_are_called_or_inherited_from_are_asked_for() -> None:
    assert facts().questions == {".models.Net", ".models.build", "mylib.layers.Block"}


def test_answers_tell_which_objects_are_modules() -> None:
    known = ancestry_of(
        {
            ".models.Net": Answer("class", "pkg.models.Net", (MODULE,)),
            ".models.build": Answer("function", "pkg.models.build", (MODULE,), returns="pkg.models.Other"),
            "mylib.layers.Block": Answer("unknown"),
        }
    )
    names = facts(known).globals
    model, other, mine = names["model"], names["other"], names["mine"]
    assert isinstance(model, Object) and model.is_module and model.device == "cuda"
    assert isinstance(other, Object) and other.is_module and other.type == "pkg.models.Other"
    assert isinstance(mine, Object) and mine.is_module
    assert not isinstance(names["block"], Object)


def test_nothing_is_asked_twice() -> None:
    known = dict.fromkeys(facts().questions, ())
    assert facts(known).questions == frozenset()
