"""Rule DG708: zero_grad between backward and step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import moved
from drygrad.static.rules.training.iterations import one_optimizer
from drygrad.static.steps import Event, Training, plain_trainings
from drygrad.static.steps.parameters import resting_on


class ZeroGradBetweenBackwardAndStep(Rule):
    """
    ## What it does
    Finds `zero_grad()` after `backward()` and before the step of the same optimizer.

    ## Why is this bad?
    The gradients are cleared right before they would be applied. The step finds none and changes nothing (with
    `set_to_none=False` it applies zeros): the model does not learn, and nothing raises.

    ## Example
    ```python
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    ```
    Use instead:
    ```python
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ```

    ## Fix safety
    Unsafe: it makes the loop train.
    """

    code, name, since = "DG708", "zero-grad-between-backward-and-step", "0.1"
    severity = "warning"
    VALID = [
        Valid("def f(loss, optimizer):\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()"),
        Valid("def f(loss, opt_g, opt_d):\n    loss.backward()\n    opt_d.zero_grad()\n    opt_g.step()"),
        Valid(
            "def f(a, b, optimizer):\n    a.backward()\n    norm = model.weight.grad.norm()\n"
            "    optimizer.zero_grad()\n    b.backward()\n    optimizer.step()"
        ),
        Valid(
            "def f(loss, optimizer):\n    loss.backward()\n    if not torch.isfinite(loss):\n"
            "        optimizer.zero_grad()\n    optimizer.step()"
        ),
        Valid(
            "def f(loss, optimizer, saved):\n    loss.backward()\n    optimizer.zero_grad()\n"
            "    for p, g in zip(model.parameters(), saved):\n        p.grad = g\n    optimizer.step()"
        ),
    ]
    INVALID = [
        Invalid(
            "for x in loader:\n    loss = model(x).mean()\n    loss.backward()\n    optimizer.zero_grad()\n"
            "    optimizer.step()",
            "for x in loader:\n    loss = model(x).mean()\n    optimizer.zero_grad()\n    loss.backward()\n"
            "    optimizer.step()",
            at=(4, 4, 4, 25),
        ),
        Invalid(
            """
            class Trainer:
                def __init__(self, model):
                    self.model = model
                    self.opt = torch.optim.SGD(model.parameters(), lr=0.1)

                def step(self, x, y):
                    loss = F.mse_loss(self.model(x), y)
                    loss.backward()
                    nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                    self.model.zero_grad()  # start afresh
                    self.opt.step()
            """,
            """
            class Trainer:
                def __init__(self, model):
                    self.model = model
                    self.opt = torch.optim.SGD(model.parameters(), lr=0.1)

                def step(self, x, y):
                    loss = F.mse_loss(self.model(x), y)
                    self.model.zero_grad()  # start afresh
                    loss.backward()
                    nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                    self.opt.step()
            """,
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        for training in plain_trainings(ctx):
            for step in training.of("step"):
                clearing = self._clearing(training, step)
                backward = _last_backward(training, clearing) if clearing is not None else None
                if clearing is not None and backward is not None:
                    found = ctx.finding(
                        self,
                        clearing.node,
                        "the gradients are cleared between backward() and step(), so the step has nothing to apply",
                        related=[("computed here", backward.node), ("step() is called here", step.node)],
                        fixes=[self._fix(ctx, clearing, backward)],
                    )
                    yield resting_on(ctx, found, clearing, step)

    def _clearing(self, training: Training, step: Event) -> Event | None:
        """Return what surely clears the gradients of an optimizer before its step, with no backward in between."""
        for event in reversed(training.events[: step.index]):
            if event.kind in ("backward", "grad_edit", "autograd_grad", "unseen", "step") or step.closure:
                return None
            if event.kind == "zero_grad":
                same = event.receiver == step.receiver if "optimizer" in event.roles else one_optimizer(training)
                together = event.loops == step.loops and event.surely_with(step)
                return event if same and together and event.receiver is not None else None
        return None

    def _fix(self, ctx: Context, clearing: Event, backward: Event) -> Fix | None:
        return ctx.fix("Clear the gradients before `backward()`", *moved(ctx, clearing.statement, backward.statement))


def _last_backward(training: Training, clearing: Event) -> Event | None:
    """Return the backward whose gradients are cleared before any step applied them."""
    for event in reversed(training.events[: clearing.index]):
        if event.kind in ("step", "unseen", "grad_edit", "autograd_grad"):
            return None
        if event.kind == "backward":
            return event if clearing.loops == event.loops and not event.excludes(clearing) else None
    return None
