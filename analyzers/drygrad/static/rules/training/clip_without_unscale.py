"""Rule DG720: scaled gradients clipped."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import inserted
from drygrad.static.rules.training.scalers import may_be_disabled, text_of_optimizer, text_of_scaler
from drygrad.static.steps import Event, Training, plain_trainings


class ClipWithoutUnscale(Rule):
    """
    ## What it does
    Finds gradient clipping on gradients that a `GradScaler` has not unscaled yet.

    ## Why is this bad?
    Scaled gradients are thousands of times larger than the true ones (the scale starts at 65536), so nearly all are
    clipped; `scaler.step` then divides them by the scale, and the update almost vanishes. Nothing raises.

    ## Example
    ```python
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    ```
    Use instead:
    ```python
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    ```

    ## Fix safety
    Unsafe: it changes the updates.
    """

    code, name, since = "DG720", "clip-without-unscale", "0.1"
    severity = "warning"
    VALID = [
        Valid("""
            def f(loss, model, optimizer, scaler):
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
        """),
        Valid("""
            def f(loss, model, optimizer):
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
        """),
        Valid("""
            def f(loss, model, optimizer, scaler, amp):
                if amp:
                    scaler.scale(loss).backward()
                    scaler.step(optimizer)
                    scaler.update()
                else:
                    loss.backward()
                    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
        """),
        Valid("""
            def f(loss, model, optimizer):
                scaler = torch.amp.GradScaler("cuda", enabled=False)
                scaler.scale(loss).backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
        """),
    ]
    INVALID = [
        Invalid(
            """
            def f(loss, model, optimizer, scaler):
                scaler.scale(loss).backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
            """,
            """
            def f(loss, model, optimizer, scaler):
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
            """,
            at=(3, 4, 3, 53),
        ),
        Invalid(
            """
            import torch
            from torch.nn.utils import clip_grad_norm_

            class Trainer:
                def __init__(self, model):
                    self.model = model
                    self.opt = torch.optim.AdamW(model.parameters())
                    self.amp = torch.amp.GradScaler("cuda")

                def fit(self, loader):
                    for x, y in loader:
                        self.opt.zero_grad()
                        with torch.autocast("cuda"):
                            loss = torch.nn.functional.cross_entropy(self.model(x), y)
                        scaled = self.amp.scale(loss)
                        scaled.backward()
                        norm = clip_grad_norm_(self.model.parameters(), 1.0)
                        self.amp.step(self.opt)
                        self.amp.update()
                        print(norm)
            """,
            """
            import torch
            from torch.nn.utils import clip_grad_norm_

            class Trainer:
                def __init__(self, model):
                    self.model = model
                    self.opt = torch.optim.AdamW(model.parameters())
                    self.amp = torch.amp.GradScaler("cuda")

                def fit(self, loader):
                    for x, y in loader:
                        self.opt.zero_grad()
                        with torch.autocast("cuda"):
                            loss = torch.nn.functional.cross_entropy(self.model(x), y)
                        scaled = self.amp.scale(loss)
                        scaled.backward()
                        self.amp.unscale_(self.opt)
                        norm = clip_grad_norm_(self.model.parameters(), 1.0)
                        self.amp.step(self.opt)
                        self.amp.update()
                        print(norm)
            """,
        ),
        Invalid(
            """
            def clip(model):
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)

            def f(loss, model, optimizer, scaler):
                scaler.scale(loss).backward()
                clip(model)
                scaler.step(optimizer)
                scaler.update()
            """,
            """
            def clip(model):
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)

            def f(loss, model, optimizer, scaler):
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
                clip(model)
                scaler.step(optimizer)
                scaler.update()
            """,
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        for training in plain_trainings(ctx):
            if training.of("unscale") or training.hides(None, "scaler") or may_be_disabled(ctx, training):
                continue
            for clip in training.of("clip"):
                step = self._step_of_scaled(training, clip)
                if step is not None:
                    yield ctx.finding(
                        self,
                        clip.node,
                        "the gradients are clipped while still scaled by the GradScaler; the limit is thousands of "
                        "times too small",
                        related=[("scaler.step unscales them only here", step.node)],
                        fixes=[self._fix(ctx, clip, step)],
                    )

    def _step_of_scaled(self, training: Training, clip: Event) -> Event | None:
        """Return the scaler's step that follows the clipping of gradients of a scaled loss."""
        earlier = [b for b in training.events[: clip.index] if b.kind == "backward" and not b.excludes(clip)]
        if not earlier or earlier[-1].scaler is None:
            return None
        for event in training.events[clip.index + 1 :]:
            if event.kind == "step" and not event.excludes(clip):
                return event if event.scaler is not None else None
        return None

    def _fix(self, ctx: Context, clip: Event, step: Event) -> Fix | None:
        scaler, optimizer = text_of_scaler(ctx, step), text_of_optimizer(ctx, step)
        shared = len(step.via)
        if clip.via[:shared] != step.via or scaler is None or optimizer is None:
            return None
        # a helper that clips need not know the scaler: its caller, who steps, does
        clipping = clip.statement if clip.via == step.via else ctx.statement(clip.via[shared])
        text = f"{scaler}.unscale_({optimizer})"
        return ctx.fix(f"Insert `{text}` before clipping", inserted(ctx, clipping, text))
