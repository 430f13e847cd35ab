"""Rule DG704: zero_grad at each micro-batch of an accumulation."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import inserted, is_plain
from drygrad.static.rules.training.iterations import Accumulation, accumulations, same_object
from drygrad.static.steps import Event, Training, plain_trainings


class ZeroGradPerMicroBatch(Rule):
    """
    ## What it does
    Finds loops that mean to accumulate gradients over several micro-batches, but clear them at each one.

    ## Why is this bad?
    The step comes once in k micro-batches, `zero_grad()` at every one of them: the gradients of k - 1 are thrown away
    and the step applies the last alone. Nothing tells; the effective batch is k times smaller than meant.

    ## Example
    ```python
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(model(x), y) / k
        loss.backward()
        if (i + 1) % k == 0:
            optimizer.step()
    ```
    Use instead:
    ```python
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y) / k
        loss.backward()
        if (i + 1) % k == 0:
            optimizer.step()
            optimizer.zero_grad()
    ```

    ## Fix safety
    Unsafe: it changes the updates.
    """

    code, name, since = "DG704", "zero-grad-per-micro-batch", "0.1"
    severity = "warning"
    VALID = [
        Valid("""
            for i, (x, y) in enumerate(loader):
                loss = criterion(model(x), y) / 4
                loss.backward()
                if (i + 1) % 4 == 0:
                    optimizer.step()
                    optimizer.zero_grad()
        """),
        Valid("""
            for i, (x, y) in enumerate(loader):
                if i % 4 == 0:
                    optimizer.zero_grad()
                loss = criterion(model(x), y) / 4
                loss.backward()
                if i % 4 == 3:
                    optimizer.step()
        """),
        Valid("""
            for i, x in enumerate(loader):
                # a generator that is trained at each fifth turn
                optimizer_d.zero_grad()
                optimizer_g.zero_grad()
                critic(x).mean().backward()
                optimizer_d.step()
                if i % 5 == 0:
                    optimizer_g.zero_grad()
                    generator(x).mean().backward()
                    optimizer_g.step()
        """),
        Valid("""
            for i, (x, y) in enumerate(loader):
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                if torch.isfinite(loss):
                    optimizer.step()
        """),
    ]
    INVALID = [
        Invalid(
            """
            accumulation_steps = 4
            model.train()

            for i, (data, target) in enumerate(data_loader):
                data, target = data.cuda(), target.cuda()
                optimizer.zero_grad()
                outputs = model(data)
                loss = loss_fn(outputs, target)
                loss = loss / accumulation_steps
                loss.backward()

                if (i+1) % accumulation_steps == 0:
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            """
            accumulation_steps = 4
            model.train()

            for i, (data, target) in enumerate(data_loader):
                data, target = data.cuda(), target.cuda()
                outputs = model(data)
                loss = loss_fn(outputs, target)
                loss = loss / accumulation_steps
                loss.backward()

                if (i+1) % accumulation_steps == 0:
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            at=(6, 4, 6, 25),
        ),
        Invalid(
            """
            def train(model, loader, opt, k):
                for i, (x, y) in enumerate(loader):
                    update = (i + 1) % k == 0
                    loss = F.cross_entropy(model(x), y)
                    (loss / k).backward()
                    if update:
                        opt.step()
                    model.zero_grad()
            """,
            """
            def train(model, loader, opt, k):
                for i, (x, y) in enumerate(loader):
                    update = (i + 1) % k == 0
                    loss = F.cross_entropy(model(x), y)
                    (loss / k).backward()
                    if update:
                        opt.step()
                        model.zero_grad()
            """,
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        for training in plain_trainings(ctx):
            for accumulation in accumulations(ctx, training):
                for event in self._clearing(training, accumulation):
                    size = ctx.source_of(accumulation.size)
                    yield ctx.finding(
                        self,
                        event.node,
                        f"the gradients are cleared at every micro-batch, but the step comes once in {size}: "
                        "only the last micro-batch counts",
                        related=[("the step that waits for the group", accumulation.step.node)],
                        fixes=[self._fix(ctx, training, accumulation, event)],
                    )

    def _clearing(self, training: Training, accumulation: Accumulation) -> Iterator[Event]:
        loop = accumulation.loop
        for event in training.within(loop, "zero_grad"):
            about_it = "optimizer" not in event.roles or same_object(event, accumulation.step)
            if event.loops[0] is loop and not event.branches_in(loop) and about_it:
                yield event

    def _fix(self, ctx: Context, training: Training, accumulation: Accumulation, event: Event) -> Fix | None:
        statement, step = event.statement, accumulation.step
        if event.via != step.via or not isinstance(statement, ast.Expr) or not is_plain(ctx, statement):
            return None
        deletion = ctx.delete_statement(statement)
        kept = [e for e in training.within(accumulation.loop, "zero_grad") if e.branches == step.branches]
        if kept:
            return ctx.fix("Clear the gradients after the step only", deletion)
        again = inserted(ctx, step.statement, ctx.source_of(statement), after=True)
        return ctx.fix("Clear the gradients after the step only", deletion, again)
