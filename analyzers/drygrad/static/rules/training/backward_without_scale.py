"""Rule DG723: backward of a loss that the scaler has not scaled."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.rules.training.scalers import may_be_disabled, scaled_steps, text_of_scaler
from drygrad.static.steps import Event, Training, plain_trainings


class BackwardWithoutScale(Rule):
    """
    ## What it does
    Finds `loss.backward()` followed by the step of a `GradScaler` that never scaled the loss.

    ## Why is this bad?
    `scaler.step` divides by a scale that was never applied; if the scaler has never scaled anything, it raises
    "Attempted step but _scale is None".

    ## Example
    ```python
    loss.backward()
    scaler.step(optimizer)
    scaler.update()
    ```
    Use instead:
    ```python
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Fix safety
    Unsafe: code that raised now runs.
    """

    code, name, since = "DG723", "backward-without-scale", "0.1"
    severity = "error"
    VALID = [
        Valid("""
            def f(loss, optimizer, scaler):
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
        """),
        Valid("""
            def f(loss, optimizer, scaler):
                loss = scaler.scale(loss)
                loss.backward()
                scaler.step(optimizer)
                scaler.update()
        """),
        Valid("""
            class Trainer:
                def __init__(self, optimizer):
                    self.optimizer = optimizer
                    self.scaler = torch.amp.GradScaler("cuda")

                def backward(self, loss):
                    self.scaler.scale(loss).backward()

                def step(self, loss):
                    self.backward(loss)
                    self.scaler.step(self.optimizer)
                    self.scaler.update()
        """),
        Valid("""
            def f(loss, optimizer, scaler, amp):
                if amp:
                    scaler.scale(loss).backward()
                else:
                    loss.backward()
                scaler.step(optimizer)
                scaler.update()
        """),
        Valid("""
            def f(model, batch, optimizer, scaler):
                loss = compute(model, batch, scaler)
                loss.backward()
                scaler.step(optimizer)
                scaler.update()
        """),
    ]
    INVALID = [
        Invalid(
            """
            def f(loss, optimizer, scaler):
                loss.backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            """
            def f(loss, optimizer, scaler):
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            """,
            at=(2, 4, 2, 19),
        ),
        Invalid(
            """
            def train(model, loader, opt):
                amp = torch.amp.GradScaler("cuda")
                for x, y in loader:
                    opt.zero_grad()
                    with torch.autocast("cuda"):
                        loss = F.cross_entropy(model(x), y)
                    (loss + model.penalty()).backward()
                    amp.step(opt)
                    amp.update()
            """,
            """
            def train(model, loader, opt):
                amp = torch.amp.GradScaler("cuda")
                for x, y in loader:
                    opt.zero_grad()
                    with torch.autocast("cuda"):
                        loss = F.cross_entropy(model(x), y)
                    amp.scale(loss + model.penalty()).backward()
                    amp.step(opt)
                    amp.update()
            """,
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        for training in plain_trainings(ctx):
            steps = scaled_steps(training)
            if not steps or training.of("scale") or training.hides(None, "scaler") or may_be_disabled(ctx, training):
                continue
            for backward in training.of("backward"):
                step = self._step_after(training, backward)
                if step is not None:
                    yield ctx.finding(
                        self,
                        backward.node,
                        "a GradScaler takes the step, but the loss was not scaled; scaler.step() raises",
                        related=[("scaler.step() is called here", step.node)],
                        fixes=[self._fix(ctx, backward, step)],
                    )

    def _step_after(self, training: Training, backward: Event) -> Event | None:
        steps = (e for e in training.events[backward.index + 1 :] if e.kind == "step" and not e.excludes(backward))
        step = next(steps, None)
        return step if step is not None and step.scaler is not None else None

    def _fix(self, ctx: Context, backward: Event, step: Event) -> Fix | None:
        node, scaler = backward.node, text_of_scaler(ctx, step)
        if backward.via != step.via or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return None
        if ctx.name(node.func) is not None:
            return None
        text = f"{scaler}.scale({ctx.source_of(node.func.value)}).backward"
        return ctx.fix(f"Scale the loss with `{scaler}`", ctx.replace(node.func, text))
