"""Who had nothing to say of a function is asked again as soon as what it asked of has changed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import pytest

from drygrad.settings import Settings
from drygrad.static.context import Context
from drygrad.static.engine import Analyzer
from drygrad.static.facts.module import ModuleFacts
from drygrad.static.silence import OwnContext
from drygrad.static.source import Source
from drygrad.static.tree import Tree

TEXT = """\
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        y = x.exp()
        return y

def other(x: torch.Tensor):
    return x.log()
"""
TREE = Tree.parse(Source(TEXT))
WHOLE = Context(TREE, ModuleFacts(TREE.module, TEXT), Settings())


def asked(question: str, name: str = "exp") -> OwnContext:
    """Ask a context of the class something, with ``ctx``, ``method`` (forward) and ``call`` (of that name)."""
    method = next(n for n in WHOLE.nodes(ast.FunctionDef) if n.name == "forward")
    call = next(n for n in WHOLE.nodes(ast.Call) if isinstance(n.func, ast.Attribute) and n.func.attr == name)
    context = OwnContext(WHOLE, TREE.statements[1])
    answer, whole = (eval(question, {"ast": ast, "ctx": c, "method": method, "call": call}) for c in (context, WHOLE))
    assert listed(answer) == listed(whole)
    return context


def listed(answer: Any) -> Any:
    return [*answer] if isinstance(answer, Iterator) else answer


@pytest.mark.parametrize(
    "question",
    [
        "ctx.value(call.func)",
        "ctx.name(call.func)",
        "ctx.call(call)",
        "ctx.receiver(call)",
        "ctx.function(call)",
        "ctx.loops(call)",
        "ctx.enclosing(call, ast.For)",
        "ctx.grad_enabled(ctx.statement(call))",
        "ctx.source_of(call)",
        "ctx.noted(lambda node, inner: inner.callers(node), method)",
        "ctx.settings",
    ],
)
def test_a_question_about_the_bodies_stays_with_them(question: str) -> None:
    assert not asked(question).left


@pytest.mark.parametrize(
    "question",
    [
        "ctx.tree",
        "ctx.facts",
        "ctx.source",
        "ctx.callers(method)",
        "ctx.classes()",
        "ctx.is_module_class(ctx.parent(method))",
        "ctx.nodes(ast.Call)",
        "ctx.imported_as('torch.nn')",
        "ctx.derived(lambda whole: True)",
        "ctx.parent(ctx.parent(method))",
    ],
)
def test_a_question_about_the_file_leaves_the_bodies(question: str) -> None:
    assert asked(question).left


@pytest.mark.parametrize("question", ["ctx.value(call)", "ctx.call(call)", "ctx.parent(call)", "ctx.noted(last, call)"])
def test_a_question_about_another_statement_leaves_the_bodies(question: str) -> None:
    assert asked(question.replace("last", "lambda node, inner: None"), "log").left


TRAINING = """\
import torch

def train(net, loader, optimizer):
    total = 0
    for x in loader:
        loss = net(x).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total += loss.item()
    return total

def frame(n):
    return torch.zeros(n, dtype=torch.int16)

def motion():
    return frame(9) - frame(9)

def device():
    return torch.device("cpu")
"""


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ('"cpu"', '"cuda"', ("DG601", 10)),  # the loop was asked of, and the whole text
        ("int16", "uint8", ("DG413", 17)),  # what the body was found to hold is another
    ],
)
def test_an_edit_elsewhere_shows_in_a_function_that_was_silent(old: str, new: str, finding: tuple[str, int]) -> None:
    analyzer, unrelated = Analyzer(), "# a comment\n"
    versions = [TRAINING, TRAINING + unrelated, TRAINING + 2 * unrelated, TRAINING.replace(old, new), TRAINING]
    found = [[(f.code, f.span.start.line) for f in analyzer.check(Source(text)).findings] for text in versions]
    assert found == [[], [], [], [finding], []]


def test_who_waits_for_two_types_of_nodes_is_silent_of_each_on_its_own() -> None:
    program = (
        "import torch\n\ndef train(model, loader):\n    total = 0\n    for x in loader:\n        loss = model(x)\n"
        "        loss.backward()\n        total += loss\n"
    )
    typed = Analyzer()
    typed.check(Source("import torch\n"))
    assert [f.code for f in typed.check(Source(program)).findings].count("DG502") == 1
