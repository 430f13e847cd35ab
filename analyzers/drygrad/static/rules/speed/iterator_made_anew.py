"""Rule DG613: a loader that is begun anew for each batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import NONE, UNKNOWN, Arguments, Constant, Object, Value
from drygrad.static.repeating import repeated
from drygrad.static.syntax import assigned_in
from drygrad.static.tree import walk

_LOADER = "torch.utils.data.DataLoader"
_CONSEQUENCES: dict[bool | None, str] = {
    True: "the workers restart and all indices are shuffled again",
    False: "the other batches are never seen",
    None: "without random sampling, that is the same batch every time",
}
"""What comes of it, by whether the loader shuffles."""


class IteratorMadeAnew(Rule):
    """
    ## What it does
    Finds `next(iter(loader))` in a loop that does not change the loader, also in a method that the loop calls for its
    batches.

    ## Why is this bad?
    Each `iter()` starts an epoch: workers are restarted, all indices are shuffled again, and only the first batch is
    used. A loader that does not shuffle returns the same batch every time, and the rest of the data is never used. One
    that shuffles returns different batches at that cost; this is an info. (`itertools.cycle(loader)` is no remedy: it
    keeps all batches of the first epoch in memory and repeats them in the same order.)

    ## Example
    ```python
    for step in range(steps):
        x, y = next(iter(loader))
    ```
    Use instead:
    ```python
    def endless(loader):
        while True:
            yield from loader


    batches = endless(loader)
    for step in range(steps):
        x, y = next(batches)
    ```
    """

    code, name, since = "DG613", "iterator-made-anew", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            def train(loader, steps):
                batches = iter(loader)
                for step in range(steps):
                    try:
                        x, y = next(batches)
                    except StopIteration:
                        batches = iter(loader)
                        x, y = next(batches)
                return next(iter(loader))
            """
        ),
        Valid(  # a look at each of several
            """
            class Batches:
                def __init__(self, loader):
                    self.loader = loader

                def first(self):
                    return next(iter(self.loader))

            def train(model, loaders):
                for loader in loaders:
                    batches = Batches(loader)
                    x, y = batches.first()
                    F.cross_entropy(model(x), y).backward()
            """
        ),
        Valid("def first(loaders):\n    for loader in loaders:\n        print(next(iter(loader)))"),
        Valid("def first(model):\n    for _ in range(3):\n        print(next(iter(model.parameters())).device)"),
    ]
    INVALID = [
        Invalid(
            """
            class Batches:
                def __init__(self, loader):
                    self.loader = loader

                def take(self):
                    return next(iter(self.loader))

            def train(model, batches, loader, steps):
                batches = Batches(loader)
                for step in range(steps):
                    x, y = batches.take()
                    F.cross_entropy(model(x), y).backward()
            """,
            at=(6, 15, 6, 38),
        ),
        Invalid(
            """
            def train(model, train_loader, steps):
                for step in range(steps):
                    x, y = next(iter(train_loader))
                    F.cross_entropy(model(x), y).backward()
            """,
            at=(3, 15, 3, 39),
        ),
        Invalid(
            """
            from torch.utils.data import DataLoader
            import torch

            loader = DataLoader(torch.randn(64, 3), batch_size=8, shuffle=True)
            for _ in range(10):
                print(next(iter(loader)).mean())
            """,
            severity="info",
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.Call(
                func=ast.Name(id="next"), args=[ast.Call(func=ast.Name(id="iter"), args=[loader], keywords=[]), *_]
            ):
                text = dotted_text(loader)
            case _:
                return
        if text is None or not _is_loader(loader, text, ctx):
            return
        loops = ctx.loops(node)
        if not loops and repeated(text, node, ctx) is None:
            return
        if any(name == text or text.startswith(f"{name}.") for loop in loops[:1] for name, _ in assigned_in(loop)):
            return
        if any(_binds(loop, text) for loop in loops[:1]):
            return
        shuffles = _shuffles(ctx.value(loader))
        message = (
            f"every iteration starts a new epoch of {text} and takes only its first batch; {_CONSEQUENCES[shuffles]}"
        )
        yield ctx.finding(self, node, message, severity="info" if shuffles else None)


def _shuffles(loader: Value) -> bool | None:
    """Say whether a loader gives another batch every time; None where nothing tells."""
    arguments = loader.arguments if isinstance(loader, Object) else Arguments(complete=False)
    given = [arguments.get(name, i) for i, name in ((2, "shuffle"), (3, "sampler"), (4, "batch_sampler"))]
    if all(value in (None, NONE, Constant(False)) for value in given):
        return False
    return True if given[0] == Constant(True) else None


def _is_loader(loader: ast.expr, text: str, ctx: Context) -> bool:
    value = ctx.value(loader)
    if isinstance(value, Object):
        return value.type == _LOADER
    return value is UNKNOWN and text.lower().endswith(("loader", "dataloader", "dl"))


def _binds(loop: ast.AST, text: str) -> bool:
    target = getattr(loop, "target", None)
    return isinstance(target, ast.AST) and any(isinstance(n, ast.Name) and n.id == text for n in walk(target))
