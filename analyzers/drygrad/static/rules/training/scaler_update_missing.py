"""Rule DG721: scaler.update() missing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import inserted
from drygrad.static.loops import repeats
from drygrad.static.rules.training.scalers import may_be_disabled, scaled_steps, text_of_scaler
from drygrad.static.steps import Event, plain_trainings
from drygrad.static.syntax import bound_names


class ScalerUpdateMissing(Rule):
    """
    ## What it does
    Finds loops with `scaler.step(optimizer)` and no `scaler.update()`.

    ## Why is this bad?
    `update()` ends the scaler's iteration. Without it, the second `scaler.step` raises "step() has already been called
    since the last update()".

    ## Example
    ```python
    for x, y in loader:
        scaler.scale(criterion(model(x), y)).backward()
        scaler.step(optimizer)
        optimizer.zero_grad()
    ```
    Use instead:
    ```python
    for x, y in loader:
        scaler.scale(criterion(model(x), y)).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    ```

    ## Fix safety
    Unsafe: it changes the scale.
    """

    code, name, since = "DG721", "scaler-update-missing", "0.1"
    severity = "error"
    VALID = [
        Valid("""
            for x in loader:
                optimizer.zero_grad()
                scaler.scale(model(x).mean()).backward()
                scaler.step(optimizer)
                scaler.update()
        """),
        Valid("""
            def f(loss, optimizer, scaler):
                # the caller updates
                scaler.scale(loss).backward()
                scaler.step(optimizer)
        """),
        Valid("""
            for x in loader:
                optimizer.zero_grad()
                scaler.scale(model(x).mean()).backward()
                scaler.step(optimizer)
                finish(scaler)
        """),
        Valid("""
            scaler = torch.amp.GradScaler("cuda", enabled=False)
            for x in loader:
                optimizer.zero_grad()
                scaler.scale(model(x).mean()).backward()
                scaler.step(optimizer)
        """),
        Valid(
            """
            def step_all(optimizers, scaler):
                for name, optimizer in optimizers.items():
                    scaler.unscale_(optimizer)
                    scaler.step(optimizer)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            for x in loader:
                optimizer.zero_grad()
                scaler.scale(model(x).mean()).backward()
                scaler.step(optimizer)
            """,
            """
            for x in loader:
                optimizer.zero_grad()
                scaler.scale(model(x).mean()).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            at=(4, 4, 4, 26),
        ),
        Invalid(
            """
            def train_step(batch, model, opt, grad_scaler):
                opt.zero_grad()
                with torch.autocast("cuda"):
                    loss = model(batch)
                grad_scaler.scale(loss).backward()
                grad_scaler.unscale_(opt)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                grad_scaler.step(opt)

            def train(model, opt, loader):
                scaler = torch.amp.GradScaler("cuda")
                for batch in loader:
                    train_step(batch, model, opt, scaler)
            """,
            """
            def train_step(batch, model, opt, grad_scaler):
                opt.zero_grad()
                with torch.autocast("cuda"):
                    loss = model(batch)
                grad_scaler.scale(loss).backward()
                grad_scaler.unscale_(opt)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                grad_scaler.step(opt)
                grad_scaler.update()

            def train(model, opt, loader):
                scaler = torch.amp.GradScaler("cuda")
                for batch in loader:
                    train_step(batch, model, opt, scaler)
            """,
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        for training in plain_trainings(ctx):
            steps = [s for s in scaled_steps(training) if s.loops and repeats(s.loops[0]) and not _is_another(s)]
            if not steps or training.of("update") or training.hides(None, "scaler") or may_be_disabled(ctx, training):
                continue
            yield ctx.finding(
                self,
                steps[-1].node,
                'scaler.update() is missing; the second scaler.step() raises "step() has already been called since '
                'the last update()"',
                fixes=[self._fix(ctx, steps[-1])],
            )

    def _fix(self, ctx: Context, step: Event) -> Fix | None:
        text = f"{text_of_scaler(ctx, step)}.update()"
        return ctx.fix(f"Insert `{text}`", inserted(ctx, step.statement, text, after=True))


def _is_another(step: Event) -> bool:
    """Say whether each turn of the loop steps another optimizer: a scaler steps each of them once, then is updated."""
    return step.receiver is not None and step.receiver.partition(".")[0] in bound_names(step.loops[0])
