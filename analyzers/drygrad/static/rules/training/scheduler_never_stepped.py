"""Rule DG761: a learning-rate scheduler that is made and never asked to step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Object
from drygrad.static.roles import is_scheduler_class
from drygrad.static.syntax import scope_of
from drygrad.static.tree import walk

_ASKED = frozenset({"get_last_lr", "get_lr", "print_lr", "last_epoch", "base_lrs", "state_dict", "optimizer"})


class SchedulerNeverStepped(Rule):
    """
    ## What it does
    Finds a learning-rate scheduler whose `step()` is never called and that is not passed anywhere.

    ## Why is this bad?
    A scheduler changes the learning rate only in `step()`, and nothing else calls it. Without it the learning rate
    keeps the value that the constructor set: with `OneCycleLR` or another warm-up, a small fraction of the intended
    one.

    ## Example
    ```python
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 30)
    for epoch in range(90):
        train(model, optimizer)
    ```
    Use instead:
    ```python
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 30)
    for epoch in range(90):
        train(model, optimizer)
        scheduler.step()
    ```

    ## Fix safety
    No fix: whether to step per batch or per epoch depends on what its numbers count.
    """

    code, name, since = "DG761", "scheduler-never-stepped", "0.1"
    severity = "warning"
    VALID = [
        Valid("s = torch.optim.lr_scheduler.StepLR(optimizer, 3)\nfor e in range(9):\n    s.step()"),
        Valid("def f(o):\n    s = torch.optim.lr_scheduler.StepLR(o, 3)\n    return s"),
        Valid("def f(o, t):\n    s = torch.optim.lr_scheduler.StepLR(o, 3)\n    t.fit(s)"),
        Valid(
            "w = torch.optim.lr_scheduler.LinearLR(o)\nm = torch.optim.lr_scheduler.StepLR(o, 3)\n"
            "s = torch.optim.lr_scheduler.SequentialLR(o, [w, m], [5])\ns.step()"
        ),
        Valid("class T:\n    def __init__(self, o):\n        self.scheduler = torch.optim.lr_scheduler.StepLR(o, 3)"),
    ]
    INVALID = [
        Invalid(
            """
            def train(model, optimizer, epochs):
                scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
                for epoch in range(epochs):
                    optimizer.step()
                    print(epoch, scheduler.get_last_lr())
            """,
            at=(2, 16, 2, 83),
        ),
    ]

    def visit_assign(self, node: ast.Assign, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as made):
                pass
            case _:
                return
        value = ctx.value(made)
        if not isinstance(value, Object) or not is_scheduler_class(value.type):
            return
        scope = scope_of(node, ctx)
        if isinstance(scope, ast.Module) and _is_imported_from(ctx):
            return
        reads = [n for n in walk(scope) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
        if all(_is_only_asked(read, ctx) for read in reads):
            yield ctx.finding(self, made, f"{name} is never stepped, so the learning rate never changes")


def _is_imported_from(ctx: Context) -> bool:
    """Say whether a module may be there for others to import: it defines functions or classes, and runs no loop."""
    return not any(isinstance(node, (ast.For, ast.While)) for node in ctx.tree.body)


def _is_only_asked(read: ast.Name, ctx: Context) -> bool:
    parent = ctx.parent(read)
    return isinstance(parent, ast.Attribute) and parent.attr in _ASKED
