"""Rule DG701: optimizer step before backward."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import moved
from drygrad.static.rules.training.iterations import one_optimizer
from drygrad.static.steps import Event, Training, plain_trainings
from drygrad.static.steps.parameters import resting_on


class StepBeforeBackward(Rule):
    """
    ## What it does
    Finds an optimizer step before the `backward()` whose gradients it should apply.

    ## Why is this bad?
    Nothing raises: the optimizer skips parameters without a gradient. If the gradients are cleared in between, the step
    never sees any and nothing is learned; otherwise it applies those of the previous batch, and the last ones are lost.

    ## Example
    ```python
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        optimizer.step()
        loss.backward()
    ```
    Use instead:
    ```python
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    ```

    ## Fix safety
    Unsafe: it changes the updates.
    """

    code, name, since = "DG701", "step-before-backward", "0.1"
    severity = "warning"
    VALID = [
        Valid("for x in loader:\n    optimizer.zero_grad()\n    model(x).sum().backward()\n    optimizer.step()"),
        Valid(
            "def f(loss, opt_a, opt_b, other):\n    loss.backward()\n    opt_a.step()\n    other.backward()\n"
            "    opt_b.step()"
        ),
        Valid(
            "for x in loader:\n    if pending:\n        optimizer.step()\n        optimizer.zero_grad()\n"
            "    model(x).sum().backward()"
        ),
        Valid(
            "def f(loss, optimizer):\n    loss.sum().backward()\n    optimizer.step()\n    optimizer.zero_grad()\n"
            "    loss.mean().backward()\n    optimizer.step()"
        ),
        Valid(
            "for x in loader:\n    update(optimizer)\n    optimizer.step()\n    optimizer.zero_grad()\n"
            "    model(x).sum().backward()"
        ),
    ]
    INVALID = [
        Invalid(
            """
            for x, y in loader:
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                optimizer.step()
                loss.backward()
            """,
            """
            for x, y in loader:
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
            """,
            at=(4, 4, 4, 20),
        ),
        Invalid(
            """
            def train_step(model, opt, x, y):
                opt.zero_grad()
                loss = F.cross_entropy(model(x), y)
                opt.step()  # apply
                loss.backward()
                return loss.item()
            """,
            """
            def train_step(model, opt, x, y):
                opt.zero_grad()
                loss = F.cross_entropy(model(x), y)
                loss.backward()
                opt.step()  # apply
                return loss.item()
            """,
        ),
        Invalid(
            """
            def apply(o):
                o.step()

            def differentiate(e):
                e.backward()

            for x in loader:
                optimizer.zero_grad()
                apply(optimizer)
                differentiate(model(x).sum())
            """,
            """
            def apply(o):
                o.step()

            def differentiate(e):
                e.backward()

            for x in loader:
                optimizer.zero_grad()
                differentiate(model(x).sum())
                apply(optimizer)
            """,
            at=(2, 4, 2, 12),
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        for training in plain_trainings(ctx):
            steps, backwards = training.of("step"), training.of("backward")
            if len(steps) != 1 or not backwards or not one_optimizer(training):
                continue
            step, backward = steps[0], backwards[0]
            if self._is_early(training, step, backward):
                lost = self._cleared(training, step)
                yield resting_on(
                    ctx,
                    ctx.finding(
                        self,
                        step.node,
                        "step() runs before backward(): "
                        + (
                            "the gradients have just been cleared, so nothing is learned"
                            if lost
                            else "it applies the previous batch's gradients; the last ones are never applied"
                        ),
                        related=[("the gradients are computed here", backward.node)],
                        fixes=[self._fix(ctx, step, backward)],
                    ),
                    step,
                )

    def _is_early(self, training: Training, step: Event, backward: Event) -> bool:
        if step.index > backward.index or step.closure or step.loops != backward.loops:
            return False
        return (
            step.branches == backward.branches
            and not training.hides(None)
            and not training.of("grad_edit", "autograd_grad")
        )

    def _cleared(self, training: Training, step: Event) -> bool:
        """Say whether the gradients are cleared between a backward and the step in the next turn."""
        return any(e.index < step.index and e.loops == step.loops for e in training.of("zero_grad"))

    def _fix(self, ctx: Context, step: Event, backward: Event) -> Fix | None:
        first, second = (
            (step.statement, backward.statement) if step.via == backward.via else (step.anchor, backward.anchor)
        )
        if first is second:
            return None
        return ctx.fix("Move the step after `backward()`", *moved(ctx, first, second, after=True))
