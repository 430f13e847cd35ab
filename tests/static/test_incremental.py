"""An analyzer fed version after version finds what a fresh one finds, and keeps the trees that no edit touched."""

from __future__ import annotations

import ast
import gc
import random

import pytest

from drygrad.static.engine import Analyzer
from drygrad.static.facts.module import ModuleFacts
from drygrad.static.source import Source, SourceError
from drygrad.static.tree import Tree

PROGRAM: str = '''\
import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE = 784


class Block(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return x + self.fc(self.norm(x))


@torch.no_grad()
def evaluate(model, x):
    return model(x).softmax(-1)


class Net(Block):
    def __init__(self):
        super().__init__(64)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        """Text with
lines at the margin.
        """
        return self.head(super().forward(x))


def loss_of(model, x, y):
    p = model(x).softmax(-1)
    return F.cross_entropy(p, y)


def helper(n): return n; unused = 1
def main():
    model = Net()
    x, y = torch.randn(8, 64), torch.randint(0, 10, (8,))
    loss = loss_of(model, x, y)
    loss.backward()
    z = model(x).exp()
    z.clamp_(min=0)
    F.cross_entropy(model(x).softmax(-1), y)
    return z


if __name__ == "__main__":
    main()
'''
REPLACEMENTS = [
    ("64", "32"), ("softmax", "relu"), ("self", "this"), ("(", "(("), ('"""', ""), ("    ", ""), ("x", "y"),
    ("=", "=="),
    ("return", "yield"), ("Net", "Block"), ("def ", "async def "), ("main", "loss_of"),
]  # fmt: skip


def edited(lines: list[str], chance: random.Random) -> list[str]:
    lines = list(lines)
    at = chance.randrange(len(lines))
    match chance.randrange(6):
        case 0:
            lines.insert(at, chance.choice(["", "# note", "    pass", "x = 1", "else:", "SIZE = 10", '"""', "\\"]))
        case 1 if len(lines) > 1:
            del lines[at]
        case 2:
            other = chance.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        case 3:
            lines[at:at] = PROGRAM.split("\n")[at : at + 5]
        case _:
            old, new = chance.choice(REPLACEMENTS)
            lines[at] = lines[at].replace(old, new, 1)
    return lines


@pytest.mark.parametrize("seed", range(12))
def test_edits_one_by_one_give_what_a_fresh_analyzer_gives(seed: int) -> None:
    chance = random.Random(seed)
    analyzer = Analyzer()
    lines = PROGRAM.split("\n")
    for _ in range(25):
        lines = edited(lines, chance) if chance.random() < 0.8 else PROGRAM.split("\n")
        source = Source("\n".join(lines))
        kept, fresh = analyzer.check(source), Analyzer().check(source)
        assert kept.findings == fresh.findings
        assert str(kept.error) == str(fresh.error)


def test_the_program_has_findings() -> None:
    assert [finding.code for finding in Analyzer().check(Source(PROGRAM)).findings].count("DG304") == 2


def dump(tree: Tree) -> str:
    return ast.dump(tree.module, include_attributes=True)


def test_an_edit_parses_only_what_it_touches() -> None:
    before = Tree.parse(Source(PROGRAM))
    kept = {node.name: node for node in before.module.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    source = Source(PROGRAM.replace("    p = model(x)", "    # a new line\n    p = model(x)"))
    after = before.update(source)
    nodes = {node.name: node for node in after.module.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    assert nodes["Block"] is kept["Block"]
    assert nodes["main"] is kept["main"]
    assert nodes["loss_of"] is not kept["loss_of"]
    assert dump(after) == dump(Tree.parse(source))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a = 1\nb = 2\nc = 3\n", "a = 1; b = 2\nc = 3\n"),
        ("a = 1\nb = 2; c = 3\nd = 4\n", "a = 2\nb = 2; c = 3\nd = 4\n"),
        ("if a:\n    b\nc\nd\n", "if a:\n    b\nelse:\n    c\nd\n"),
        ("a = 1\nb = 2\n", "a = (1\nb = 2\n)\n"),
        ("a\nb\nc\n", "a\nb \\\n\nc\n"),
        ("@f\ndef a(): pass\nb\n", "@g\ndef a(): pass\nb\n"),
        ("a\n@f\ndef b(): pass\n", "a\nx\n@f\ndef b(): pass\n"),
        ("a = 1\r\nb = 2\r\nc = 3\r\n", "a = 1\r\nb = 5\r\nc = 3\r\n"),
        ("", "a\n"),
        ("a\n", ""),
    ],
)
def test_the_kept_tree_equals_a_fresh_one(old: str, new: str) -> None:
    tree = Tree.parse(Source(old))
    source = Source(new)
    try:
        expected = dump(Tree.parse(source))
    except SourceError as error:
        with pytest.raises(type(error)):
            tree.update(source)
    else:
        assert dump(tree.update(source)) == expected


CLOSURES = """\
def train_{n}(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def closure():
        loss = model(torch.ones(1)).sum()
        loss.backward()
        return loss

    key = lambda t: t.softmax(-1)
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(key(model(x)), y).backward()
        optimizer.step(closure)


"""


def test_closures_keep_no_older_version_alive() -> None:
    text = "".join(CLOSURES.format(n=n) for n in range(8))
    lines = f"import torch\nimport torch.nn.functional as F\n\n\n{text}".split("\n")
    analyzer = Analyzer()
    for n in range(len(lines)):
        edited_lines = [*lines[:n], lines[n] + "  # edited", *lines[n + 1 :]]
        analyzer.check(Source("\n".join(edited_lines)))
    gc.collect()
    assert sum(type(thing) is ModuleFacts for thing in gc.get_objects()) <= 2
