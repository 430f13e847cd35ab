"""What makes something known by being executed is executed, though nothing reads the name that it binds."""

from __future__ import annotations

import pytest
from plan_harness import arguments, missing, plan

DECORATOR = """\
FOUND = {}
def register(name):
    def wrap(made):
        FOUND[name] = made
        return made
    return wrap
"""
OPERATOR = """\
import json
import own
import torch
lib = torch.library.Library("mine", "DEF")
lib.define("a() -> Tensor")
@torch.library.impl(lib, "a", "CPU")
def a(): return torch.zeros(1)
def other(): return json.dumps(1)
"""
CUSTOM = """\
import torch
from torch.library import custom_op, register_autograd
@custom_op("mine::a", mutates_args=())
def a(x: torch.Tensor) -> torch.Tensor: return x.clone()
@a.register_fake
def _(x): return torch.empty_like(x)
def other(ctx, grad): return grad
register_autograd("mine::a", other)
@custom_op("mine::b", mutates_args=())
def b(x: torch.Tensor) -> torch.Tensor: return x.clone()
def register_b(): ...
register_b()
def f(): return a(torch.ones(1))
"""
CASES = [
    (CUSTOM, "def a", True),
    (CUSTOM, "def _", True),
    (CUSTOM, "register_autograd", True),
    (CUSTOM, "def other", True),
    (CUSTOM, "def b", False),
    (CUSTOM, "register_b()", False),
    (DECORATOR + "@register('a')\nclass A: ...\ndef f(): return FOUND['a']\n", "class A", True),
    (DECORATOR + "@register('a')\nclass A: ...\ndef f(): return 1\n", "class A", False),
    ("import lib\n@lib.MODELS.register_module()\nclass A: ...\ndef f(): return 1\n", "class A", True),
    ("import functools\n@functools.cache\ndef g(): ...\ndef f(): return 1\n", "def g", False),
    ("from lib import Store\nStore.instance().store(name='a', node=1)\ndef f(): return 1\n", "Store.instance", True),
    ("import lib\nlib.Config.register_new_resolver('x', abs)\ndef f(): return 1\n", "lib.Config", True),
    ("import lib\nm = lib.Net()\nm.register_forward_hook(print)\ndef f(): return 1\n", "m.register", False),
    ("class Base:\n    known = []\n    def __init_subclass__(cls): Base.known.append(cls)\n"
     "class A(Base): ...\ndef f(): return Base.known\n", "class A", True),
    ("class Base: ...\nclass A(Base): ...\ndef f(): return Base()\n", "class A", False),
    (OPERATOR + "def f(): return torch.ops.mine.a()\n", "lib.define", True),
    (OPERATOR + "def f(): return torch.ops.mine.a()\n", "def a", True),
    (OPERATOR + "def f(): return torch.ops.mine.a()\n", "import own", True),
    (OPERATOR + "def f(): return torch.ops.mine.a()\n", "import json", False),
    (OPERATOR + "def f(): return torch.ops.aten.abs()\n", "import own", False),
    (OPERATOR + "def f(): return 1\n", "lib.define", False),
]  # fmt: skip


@pytest.mark.parametrize(("text", "statement", "taken"), CASES)
def test_registering_statements_are_taken(text: str, statement: str, taken: bool) -> None:
    found = plan(text + "f()\n", "f")
    lines = [found.source.line_text(step.lineno) for step in found.steps or () if hasattr(step, "lineno")]  # type: ignore
    assert any(line.startswith(statement) for line in lines) == taken


@pytest.mark.parametrize("decorator", ["hydra.main(config_name='c')", "click.command()"])
def test_what_a_program_starts_with_runs_as_the_script(decorator: str) -> None:
    found = plan(f"import hydra, click\n@{decorator}\ndef main(config): ...\n", "main")
    assert (found.module_name, found.arguments) == ("__main__", ())


def test_what_a_command_line_would_give_is_given() -> None:
    text = "import typer\ndef main(lr: float = typer.Option(0.1), *, n=typer.Argument(default=3), m=4): ...\n"
    assert arguments(plan(text, "main")) == [("lr", "0.1"), ("n", "3")]
    text = "import typer\ndef main(path: str = typer.Argument(...), n=typer.Option(3)): ...\n"
    assert missing(text, "main").names == ("path",)
