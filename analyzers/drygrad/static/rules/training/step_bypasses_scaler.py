"""Rule DG722: optimizer step past the scaler."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import inserted
from drygrad.static.rules.training.scalers import (
    may_be_disabled,
    scaled_backwards,
    scaled_steps,
    text_of_optimizer,
    text_of_scaler,
)
from drygrad.static.steps import Event, Training, plain_trainings


class StepBypassesScaler(Rule):
    """
    ## What it does
    Finds `optimizer.step()` after `scaler.scale(loss).backward()`, where `scaler.step(optimizer)` belongs.

    ## Why is this bad?
    The gradients are still scaled, by 65536 at first: SGD takes steps that are too large by this factor, other
    optimizers mix gradients of different scales, and Inf or NaN from an overflow goes straight into the weights.
    `scaler.step(optimizer)` unscales the gradients and skips the step if they overflowed.

    ## Example
    ```python
    scaler.scale(loss).backward()
    optimizer.step()
    scaler.update()
    ```
    Use instead:
    ```python
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Fix safety
    Unsafe: it changes the updates.
    """

    code, name, since = "DG722", "step-bypasses-scaler", "0.1"
    severity = "warning"
    VALID = [
        Valid("""
            def f(loss, optimizer, scaler):
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
        """),
        Valid("""
            def f(loss, optimizer, scaler, amp):
                if amp:
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    loss.backward()
                    optimizer.step()
        """),
        Valid("""
            def f(loss, optimizer, scaler):
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                optimizer.step()
                scaler.update()
        """),
        Valid("""
            def f(loss, optimizer, other, opt_d, scaler):
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                other.backward()
                opt_d.step()
        """),
    ]
    INVALID = [
        Invalid(
            """
            def f(loss, optimizer, scaler):
                scaler.scale(loss).backward()
                optimizer.step()
                scaler.update()
            """,
            """
            def f(loss, optimizer, scaler):
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            at=(3, 4, 3, 20),
        ),
        Invalid(
            """
            model = nn.Linear(4, 1).cuda()
            sgd = torch.optim.SGD(model.parameters(), lr=0.1)
            amp = torch.amp.GradScaler("cuda")
            for x in loader:
                sgd.zero_grad()
                with torch.autocast("cuda"):
                    loss = model(x.cuda()).mean()
                amp.scale(loss).backward()
                sgd.step()
            """,
            """
            model = nn.Linear(4, 1).cuda()
            sgd = torch.optim.SGD(model.parameters(), lr=0.1)
            amp = torch.amp.GradScaler("cuda")
            for x in loader:
                sgd.zero_grad()
                with torch.autocast("cuda"):
                    loss = model(x.cuda()).mean()
                amp.scale(loss).backward()
                amp.step(sgd)
                amp.update()
            """,
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        for training in plain_trainings(ctx):
            if scaled_steps(training) or training.of("unscale", "grad_edit") or training.hides(None, "scaler"):
                continue
            for backward in [] if may_be_disabled(ctx, training) else scaled_backwards(training):
                step = self._step_after(training, backward)
                if step is not None:
                    yield ctx.finding(
                        self,
                        step.node,
                        "optimizer.step() applies gradients that are still scaled (65536 times too large at first); "
                        "call scaler.step(optimizer)",
                        related=[("the loss is scaled here", backward.node)],
                        fixes=[self._fix(ctx, training, backward, step)],
                    )

    def _step_after(self, training: Training, backward: Event) -> Event | None:
        for event in training.events[backward.index + 1 :]:
            if event.kind == "backward":
                return None
            if event.kind == "step" and not event.excludes(backward):
                return event if event.surely_with(backward) or len(event.branches) > len(backward.branches) else None
        return None

    def _fix(self, ctx: Context, training: Training, backward: Event, step: Event) -> Fix | None:
        scaler, optimizer = text_of_scaler(ctx, backward), text_of_optimizer(ctx, step)
        known = training.of("update", "scale")
        if scaler is None or optimizer is None or not known or backward.via != step.via:
            return None
        scaler = text_of_scaler(ctx, known[0]) or scaler
        assert isinstance(step.node, ast.Call)
        edits: list[Edit | None] = [ctx.replace(step.node, f"{scaler}.step({optimizer})")]
        if not training.of("update"):
            edits.append(inserted(ctx, step.statement, f"{scaler}.update()", after=True))
        return ctx.fix(f"Use `{scaler}.step({optimizer})`", *edits) if not step.node.args else None
