"""Rule DG704: zero_grad at each micro-batch of an accumulation."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context, Loop
from drygrad.static.editing import inserted, is_plain
from drygrad.static.loops import repeats
from drygrad.static.rules.training.iterations import Accumulation, accumulations, same_object
from drygrad.static.rules.training.scalers import text_of_optimizer
from drygrad.static.steps import Event, Training, plain_trainings
from drygrad.static.tree import walk


class ZeroGradPerMicroBatch(Rule):
    """
    ## What it does
    Finds loops that are meant to accumulate gradients over several micro-batches but clear them in each one, and loops
    that clear and compute gradients in each iteration, with the only step after the loop.

    ## Why is this bad?
    The step runs once per k micro-batches, but `zero_grad()` in every one: the gradients of k - 1 micro-batches are
    discarded, and the step applies only the last. Nothing raises; the effective batch is k times smaller than intended.

    ## Example
    ```python
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(model(x), y) / k
        loss.backward()
        if (i + 1) % k == 0 or i + 1 == len(loader):
            optimizer.step()
    ```
    Use instead:
    ```python
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y) / k
        loss.backward()
        if (i + 1) % k == 0 or i + 1 == len(loader):
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
        Valid(  # the whole epoch is one step
            "optimizer.zero_grad()\nfor x in loader:\n    (model(x).sum() / 4).backward()\noptimizer.step()"
        ),
        Valid(  # tried again until it is finite
            "for attempt in range(3):\n    optimizer.zero_grad()\n    loss = model(x).sum()\n    loss.backward()\n"
            "    if loss.isfinite():\n        break\noptimizer.step()"
        ),
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
        Invalid(
            """
            for epoch in range(3):
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = criterion(model(x), y)
                    loss.backward()
                optimizer.step()
            """,
            """
            for epoch in range(3):
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = criterion(model(x), y)
                    loss.backward()
                    optimizer.step()
            """,
            at=(3, 8, 3, 29),
        ),
        Invalid(
            """
            def micro(m, o, x, y):
                o.zero_grad()
                loss = F.mse_loss(m(x), y) / 4
                loss.backward()

            opt = torch.optim.SGD(model.parameters(), lr=0.1)
            for i, (x, y) in enumerate(loader):
                micro(model, opt, x, y)
                if (i + 1) % 4 == 0 or i + 1 == len(loader):
                    opt.step()
            """,
            """
            def micro(m, o, x, y):
                loss = F.mse_loss(m(x), y) / 4
                loss.backward()

            opt = torch.optim.SGD(model.parameters(), lr=0.1)
            for i, (x, y) in enumerate(loader):
                micro(model, opt, x, y)
                if (i + 1) % 4 == 0 or i + 1 == len(loader):
                    opt.step()
                    opt.zero_grad()
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
                        f"gradients are cleared on every micro-batch, but step() runs once per {size}; only the "
                        "last micro-batch counts",
                        related=[("the step for the whole group", accumulation.step.node)],
                        fixes=[self._fix(ctx, training, accumulation, event)],
                    )
            yield from self._stepping_behind(ctx, training)

    def _stepping_behind(self, ctx: Context, training: Training) -> Iterator[Finding]:
        """Find loops that clear and compute gradients in each turn, and are followed by the only step."""
        for step in training.of("step"):
            backwards = [b for b in training.of("backward") if b.index < step.index]
            loop = next(iter(backwards[-1].loops), None) if backwards else None
            if loop is None or step.in_loop(loop) or step.closure or not _only_this_steps(training, loop, step):
                continue
            cleared = [e for e in training.within(loop, "zero_grad") if _is_of_each_turn(e, step, loop)]
            backward = backwards[-1]
            if cleared and cleared[0].index < backward.index and not backward.branches_in(loop):
                yield ctx.finding(
                    self,
                    cleared[0].node,
                    "the gradients are cleared in every iteration, but step() runs after the loop; only the last "
                    "batch counts",
                    related=[("backward() computes them here", backward.node), ("the step", step.node)],
                    fixes=[self._into_loop(ctx, training, step, backward)],
                )

    def _into_loop(self, ctx: Context, training: Training, step: Event, backward: Event) -> Fix | None:
        statement, last = step.anchor, backward.anchor
        alone = [e for e in training.events if e.anchor is statement] == [step]
        if not alone or not isinstance(statement, ast.Expr) or not is_plain(ctx, statement):
            return None
        text = ctx.source_of(statement)
        return ctx.fix(
            "Step in every iteration", ctx.delete_statement(statement), inserted(ctx, last, text, after=True)
        )

    def _clearing(self, training: Training, accumulation: Accumulation) -> Iterator[Event]:
        loop = accumulation.loop
        for event in training.within(loop, "zero_grad"):
            about_it = "optimizer" not in event.roles or same_object(event, accumulation.step)
            if event.loops[0] is loop and not event.branches_in(loop) and about_it:
                yield event

    def _fix(self, ctx: Context, training: Training, accumulation: Accumulation, event: Event) -> Fix | None:
        statement, step = event.statement, accumulation.step
        if not isinstance(statement, ast.Expr) or not is_plain(ctx, statement):
            return None
        deletion = ctx.delete_statement(statement)
        if event.via != step.via:
            helper, optimizer = ctx.function(statement), text_of_optimizer(ctx, step)
            if step.via or helper is None or optimizer is None or len(ctx.callers(helper)) != 1:
                return None
            cleared = inserted(ctx, step.statement, f"{optimizer}.zero_grad()", after=True)
            return ctx.fix("Clear the gradients only after the step", deletion, cleared)
        kept = [e for e in training.within(accumulation.loop, "zero_grad") if e.branches == step.branches]
        if kept:
            return ctx.fix("Clear the gradients only after the step", deletion)
        again = inserted(ctx, step.statement, ctx.source_of(statement), after=True)
        return ctx.fix("Clear the gradients only after the step", deletion, again)


def _only_this_steps(training: Training, loop: Loop, step: Event) -> bool:
    """Say whether a loop takes no step itself, always runs to its end, and the step stands right behind it."""
    if not isinstance(loop, ast.For) or not repeats(loop) or training.hides(loop, "optimizer", "scaler"):
        return False
    if training.within(loop, "step", "hand_step", "grad_edit", "autograd_grad", "update"):
        return False
    around = next(e.loops[e.loops.index(loop) + 1 :] for e in training.events if e.in_loop(loop))
    leaves = any(isinstance(n, (ast.Break, ast.Return)) for n in walk(loop))
    reads = any(isinstance(n, ast.Attribute) and n.attr == "grad" for n in walk(loop))
    return step.loops == around and not leaves and not reads


def _is_of_each_turn(clearing: Event, step: Event, loop: Loop) -> bool:
    mine = clearing.receiver == step.receiver if "optimizer" in clearing.roles else clearing.receiver is not None
    return mine and clearing.loops[0] is loop and not clearing.branches_in(loop)
