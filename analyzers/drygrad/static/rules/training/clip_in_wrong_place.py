"""Rule DG716: gradient clipping before backward or after the step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import moved
from drygrad.static.rules.training.iterations import one_optimizer
from drygrad.static.steps import Event, Training, plain_trainings


class ClipInWrongPlace(Rule):
    """
    ## What it does
    Finds gradient clipping before `backward()` or after the optimizer step.

    ## Why is this bad?
    Clipping works on the current gradients: before `backward()` there are none, or those of the previous batch; after
    the step they have been applied unclipped. Either way the step is not clipped.

    ## Example
    ```python
    loss.backward()
    optimizer.step()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    ```
    Use instead:
    ```python
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    ```

    ## Fix safety
    Unsafe: it changes the updates.
    """

    code, name, since = "DG716", "clip-in-wrong-place", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            "def f(loss, optimizer):\n    loss.backward()\n"
            "    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    optimizer.step()"
        ),
        Valid(
            "def f(a, b, optimizer):\n    a.backward()\n    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
            "    b.backward()\n    optimizer.step()"
        ),
        Valid(
            "def f(loss, opt_a, opt_b):\n    loss.backward()\n    opt_a.step()\n"
            "    nn.utils.clip_grad_norm_(critic.parameters(), 1.0)\n    opt_b.step()"
        ),
        Valid(
            "for i, x in enumerate(loader):\n    (model(x).mean() / 4).backward()\n    if i % 4 == 3 or i == last:\n"
            "        nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n        optimizer.step()\n"
            "        optimizer.zero_grad()"
        ),
    ]
    INVALID = [
        Invalid(
            "for x in loader:\n    optimizer.zero_grad()\n    model(x).mean().backward()\n    optimizer.step()\n"
            "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
            "for x in loader:\n    optimizer.zero_grad()\n    model(x).mean().backward()\n"
            "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    optimizer.step()\n",
            at=(5, 4, 5, 59),
        ),
        Invalid(
            """
            from torch.nn.utils import clip_grad_value_
            import torch

            def train(model, opt, loader):
                for x, y in loader:
                    opt.zero_grad()
                    loss = torch.nn.functional.mse_loss(model(x), y)
                    clip_grad_value_(model.parameters(), 0.5)
                    loss.backward()
                    opt.step()
            """,
            """
            from torch.nn.utils import clip_grad_value_
            import torch

            def train(model, opt, loader):
                for x, y in loader:
                    opt.zero_grad()
                    loss = torch.nn.functional.mse_loss(model(x), y)
                    loss.backward()
                    clip_grad_value_(model.parameters(), 0.5)
                    opt.step()
            """,
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        for training in plain_trainings(ctx):
            steps, backwards, clips = training.of("step"), training.of("backward"), training.of("clip")
            if len(steps) != 1 or len(backwards) != 1 or len(clips) != 1 or not one_optimizer(training):
                continue
            step, backward, clip = steps[0], backwards[0], clips[0]
            together = (
                clip.loops == step.loops == backward.loops and clip.branches == step.branches == backward.branches
            )
            if not together or step.closure or training.hides(None, "optimizer", "scaler"):
                continue
            if clip.index < backward.index < step.index:
                message = "the gradients are clipped before backward() computes them, so clipping has no effect"
            elif backward.index < step.index < clip.index:
                message = "the gradients are clipped after step() has applied them, so clipping has no effect"
            else:
                continue
            related = [("the step", step.node)]
            yield ctx.finding(self, clip.node, message, related=related, fixes=[self._fix(ctx, training, clip, step)])

    def _fix(self, ctx: Context, training: Training, clip: Event, step: Event) -> Fix | None:
        if step.scaler is not None and not training.of("unscale"):
            return None
        return ctx.fix("Clip between `backward()` and `step()`", *moved(ctx, clip.statement, step.statement))
