"""Rule DG706: accumulation that forgets its last, incomplete group."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context, Loop
from drygrad.static.rules.training.iterations import Accumulation, accumulations
from drygrad.static.steps import Training, plain_trainings


class LostLastGroup(Rule):
    """
    ## What it does
    Finds gradient accumulation that takes no step for the remaining micro-batches at the end of the loader.

    ## Why is this bad?
    If the number of batches is not a multiple of the group size, the last gradients get no step of their own: they leak
    into the first step of the next epoch, or are cleared, and those of the last epoch are lost.

    ## Example
    ```python
    for i, (x, y) in enumerate(loader):
        (criterion(model(x), y) / k).backward()
        if (i + 1) % k == 0:
            optimizer.step()
            optimizer.zero_grad()
    ```
    Use instead:
    ```python
    for i, (x, y) in enumerate(loader):
        (criterion(model(x), y) / k).backward()
        if (i + 1) % k == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
    ```

    ## Fix safety
    Unsafe: it adds a step and calls `len(loader)`, which fails for a loader over an iterable dataset.
    """

    code, name, since = "DG706", "lost-last-group", "0.1"
    severity = "hint"
    VALID = [
        Valid("""
            for i, (x, y) in enumerate(loader):
                criterion(model(x), y).backward()
                if (i + 1) % 1 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        """),
        Valid("""
            for i, (x, y) in enumerate(loader):
                (criterion(model(x), y) / k).backward()
                if (i + 1) % k == 0 or i + 1 == len(loader):
                    optimizer.step()
                    optimizer.zero_grad()
        """),
        Valid("""
            for i, (x, y) in enumerate(loader):
                (criterion(model(x), y) / k).backward()
                if (i + 1) % k == 0:
                    optimizer.step()
                    optimizer.zero_grad()
            optimizer.step()
            optimizer.zero_grad()
        """),
        Valid("""
            while True:
                (criterion(model(x), y) / k).backward()
                if (step + 1) % k == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        """),
        Valid("""
            for i, (x, y) in enumerate(loader):
                last = i + 1 == batches
                (criterion(model(x), y) / k).backward()
                if last or (i + 1) % k == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        """),
    ]
    INVALID = [
        Invalid(
            """
            for epoch in range(num_epochs):
                for i, (inputs, labels) in enumerate(dataloader):
                    outputs = model(inputs)
                    loss = criterion(outputs, labels) / accumulation_steps
                    loss.backward()

                    if (i + 1) % accumulation_steps == 0:
                        optimizer.step()
                        optimizer.zero_grad()
            """,
            """
            for epoch in range(num_epochs):
                for i, (inputs, labels) in enumerate(dataloader):
                    outputs = model(inputs)
                    loss = criterion(outputs, labels) / accumulation_steps
                    loss.backward()

                    if (i + 1) % accumulation_steps == 0 or i + 1 == len(dataloader):
                        optimizer.step()
                        optimizer.zero_grad()
            """,
            at=(7, 11, 7, 44),
        ),
        Invalid(
            """
            for x in warm_up:
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
            for step, x in enumerate(batches(), 1):
                (model(x).mean() / 8).backward()
                if step % 8 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
            """
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        for training in plain_trainings(ctx):
            for accumulation in accumulations(ctx, training):
                if self._forgets(ctx, training, accumulation):
                    size = ctx.source_of(accumulation.size)
                    yield ctx.finding(
                        self,
                        accumulation.condition.test,
                        f"the batches after the last full group of {size} get no step; their gradients are lost or "
                        "leak into the next epoch",
                        fixes=[self._fix(ctx, accumulation)],
                    )

    def _forgets(self, ctx: Context, training: Training, accumulation: Accumulation) -> bool:
        simple = isinstance(accumulation.condition.test, (ast.Compare, ast.UnaryOp))
        step = accumulation.step
        later = [s for s in training.of("step") if s.index > step.index and not s.in_loop(accumulation.loop)]
        return simple and not later and _enumerated(accumulation.loop) is not None

    def _fix(self, ctx: Context, accumulation: Accumulation) -> Fix | None:
        counter, iterated = _enumerated(accumulation.loop) or (None, None)
        if counter is None or iterated is None or ctx.text(iterated) is None:
            return None
        text = f" or {counter.id} + 1 == len({ctx.source_of(iterated)})"
        return ctx.fix("Also step after the last batch", ctx.insert_after(accumulation.condition.test, text))


def _enumerated(loop: Loop) -> tuple[ast.Name, ast.expr | None] | None:
    """Return the counter of ``for i, batch in enumerate(loader)``, and the loader where it counts from 0."""
    match loop:
        case ast.For(
            target=ast.Tuple(elts=[ast.Name() as counter, _]),
            iter=ast.Call(func=ast.Name(id="enumerate"), args=[iterated, *rest], keywords=keywords),
        ):
            return counter, None if rest or keywords else iterated
        case _:
            return None
