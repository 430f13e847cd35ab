"""Rule DG709: learning-rate scheduler stepped at the wrong time."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context, Loop
from drygrad.static.editing import beside, moved, moved_across
from drygrad.static.facts.values import UNKNOWN, Constant, Object, Value
from drygrad.static.steps import Event, Training, plain_trainings
from drygrad.static.steps.parameters import resting_on
from drygrad.static.syntax import argument

_STEPS = 200
_VANISHED = 1e-6


class SchedulerOrder(Rule):
    """
    ## What it does
    Finds a scheduler that steps before the optimizer, and one whose period is counted in batches but that steps once
    per epoch (or vice versa).

    ## Why is this bad?
    Since torch 1.1 `scheduler.step()` belongs after `optimizer.step()`; otherwise the first learning rate is skipped
    (torch only warns). A `OneCycleLR` with `steps_per_epoch` that is stepped per epoch never leaves its warm-up; a
    `CosineAnnealingLR` whose `T_max` is the number of epochs but that is stepped per batch oscillates within each
    epoch.

    ## Example
    ```python
    for epoch in range(epochs):
        scheduler.step()
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
    ```
    Use instead:
    ```python
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        scheduler.step()
    ```

    ## Fix safety
    Unsafe: it changes the learning rates.
    """

    code, name, since = "DG709", "scheduler-order", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            def main(model, loader):
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1000, gamma=0.1)
                slow = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9999)
                for epoch in range(10):
                    for x, y in loader:
                        optimizer.zero_grad()
                        F.cross_entropy(model(x), y).backward()
                        optimizer.step()
                        scheduler.step()
                        slow.step()
            """
        ),
        Valid("""
            for epoch in range(9):
                for x in loader:
                    optimizer.zero_grad()
                    model(x).mean().backward()
                    optimizer.step()
                scheduler.step()
        """),
        Valid("""
            for epoch in range(9):
                scheduler.step(epoch)  # a library whose schedulers are told the epoch
                for x in loader:
                    optimizer.zero_grad()
                    model(x).mean().backward()
                    optimizer.step()
        """),
        Valid("""
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, epochs=9, steps_per_epoch=len(loader))
            for _ in range(start):
                scheduler.step()
            for epoch in range(9):
                for x in loader:
                    optimizer.zero_grad()
                    model(x).mean().backward()
                    optimizer.step()
                    scheduler.step()
        """),
        Valid("""
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
            for epoch in range(epochs):
                train(model, loader, optimizer)
                scheduler.step()
        """),
        Valid("""
            for x in loader:
                for t in noise_scheduler.timesteps:
                    x = noise_scheduler.step(model(x), t, x)
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
        """),
    ]
    INVALID = [
        Invalid(
            """
            CONFIG = {"epochs": 15, "drop_every": 5}

            def main(config, model, loader):
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=config["drop_every"], gamma=0.1)
                for epoch in range(config["epochs"]):
                    for x, y in loader:
                        optimizer.zero_grad()
                        F.cross_entropy(model(x), y).backward()
                        optimizer.step()
                        scheduler.step()

            main(CONFIG, build(), data())
            """,
            """
            CONFIG = {"epochs": 15, "drop_every": 5}

            def main(config, model, loader):
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=config["drop_every"], gamma=0.1)
                for epoch in range(config["epochs"]):
                    for x, y in loader:
                        optimizer.zero_grad()
                        F.cross_entropy(model(x), y).backward()
                        optimizer.step()
                    scheduler.step()

            main(CONFIG, build(), data())
            """,
            at=(11, 12, 11, 28),
        ),
        Invalid(
            """
            def train(model, optimizer, scheduler, loader):
                for epoch in range(9):
                    scheduler.step()
                    for x in loader:
                        optimizer.zero_grad()
                        model(x).mean().backward()
                        optimizer.step()
                    print(epoch)
            """,
            """
            def train(model, optimizer, scheduler, loader):
                for epoch in range(9):
                    for x in loader:
                        optimizer.zero_grad()
                        model(x).mean().backward()
                        optimizer.step()
                    scheduler.step()
                    print(epoch)
            """,
            at=(3, 8, 3, 24),
        ),
        Invalid(
            """
            for x in loader:
                optimizer.zero_grad()
                model(x).mean().backward()
                scheduler.step()
                optimizer.step()
            """,
            """
            for x in loader:
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
                scheduler.step()
            """,
        ),
        Invalid(
            """
            from torch.optim.lr_scheduler import OneCycleLR
            import torch

            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
            scheduler = OneCycleLR(optimizer, max_lr=1e-2, epochs=9, steps_per_epoch=len(loader))
            for epoch in range(9):
                for x in loader:
                    optimizer.zero_grad()
                    model(x).mean().backward()
                    optimizer.step()
                scheduler.step()  # once
            """,
            """
            from torch.optim.lr_scheduler import OneCycleLR
            import torch

            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
            scheduler = OneCycleLR(optimizer, max_lr=1e-2, epochs=9, steps_per_epoch=len(loader))
            for epoch in range(9):
                for x in loader:
                    optimizer.zero_grad()
                    model(x).mean().backward()
                    optimizer.step()
                    scheduler.step()  # once
            """,
        ),
        Invalid("""
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
            scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, epochs=9, steps_per_epoch=len(loader))
            for epoch in range(9):
                for i, x in enumerate(loader):
                    optimizer.zero_grad()
                    model(x).mean().backward()
                    if x.isfinite().all():
                        optimizer.step()
                scheduler.step()
        """),
        Invalid(
            """
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
            scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
            for epoch in range(epochs):
                for x in loader:
                    optimizer.zero_grad()
                    model(x).mean().backward()
                    optimizer.step()
                    scheduler.step()
            """,
            """
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
            scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
            for epoch in range(epochs):
                for x in loader:
                    optimizer.zero_grad()
                    model(x).mean().backward()
                    optimizer.step()
                scheduler.step()
            """,
        ),
        Invalid(
            """
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)

            def fit(net, opt, plan):
                for x, y in loader:
                    opt.zero_grad()
                    F.cross_entropy(net(x), y).backward()
                    opt.step()
                    plan.step()

            for epoch in range(20):
                fit(model, optimizer, schedule)
            """,
            """
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)

            def fit(net, opt, plan):
                for x, y in loader:
                    opt.zero_grad()
                    F.cross_entropy(net(x), y).backward()
                    opt.step()
                plan.step()

            for epoch in range(20):
                fit(model, optimizer, schedule)
            """,
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        reported: set[ast.AST] = set()
        for training in plain_trainings(ctx):
            for event in training.of("scheduler_step"):
                value = _scheduler(ctx, event)
                if not event.loops or event.node in reported or _is_type(value, "ReduceLROnPlateau"):
                    continue
                found = [*self._early(ctx, training, event, value), *self._mistimed(ctx, training, event, value)]
                reported |= {event.node} if found else set()
                yield from found

    def _early(self, ctx: Context, training: Training, event: Event, value: Value) -> Iterator[Finding]:
        steps = training.within(event.loops[0], "step")
        before = [s for s in training.of("step", "unseen") if s.index < event.index]
        assert isinstance(event.node, ast.Call)
        if before or not steps or event.branches_in(event.loops[0]) or event.node.args or event.node.keywords:
            return
        if value is UNKNOWN and any(s.via != event.via for s in steps):
            return
        yield resting_on(
            ctx,
            ctx.finding(
                self,
                event.node,
                "the scheduler steps before the optimizer, so the first learning rate is never used",
                related=[("the optimizer steps here", steps[-1].node)],
                fixes=[self._fix(ctx, training, event, steps[-1])],
            ),
            event,
            steps[-1],
        )

    def _fix(self, ctx: Context, training: Training, event: Event, step: Event) -> Fix | None:
        updates = [u for u in training.of("update") if u.loops == step.loops and u.index > step.index]
        last = (updates or [step])[0]
        target = beside(ctx, event.statement, last.statement if last.via == event.via else last.anchor)
        if target is None or (event.via and last.via != event.via):
            return None
        return ctx.fix("Step the scheduler after the optimizer", *moved(ctx, event.statement, target, after=True))

    def _mistimed(self, ctx: Context, training: Training, event: Event, value: Value) -> Iterator[Finding]:
        steps = [s for s in training.of("step") if event.loops[-1] in s.loops]
        loops = [s.loops for s in steps]
        if not isinstance(value, Object) or not loops or not isinstance(value.node, ast.Call):
            return
        made = [("the scheduler is created here", value.node)]
        by_batch = any(k.arg == "steps_per_epoch" for k in value.node.keywords)
        if _is_type(value, "OneCycleLR") and by_batch and all(len(ls) > len(event.loops) for ls in loops):
            message = (
                "OneCycleLR counts batches (steps_per_epoch) but is stepped once per epoch; it never leaves its warm-up"
            )
            yield ctx.finding(self, event.node, message, related=made, fixes=[_per_batch(ctx, training, event, steps)])
        period, counted = argument(value.node, "T_max", 1), _epochs_counted(value)
        epochs = _turns(event.loops[-1])
        if len(event.loops) < 2 or epochs is None or any(ls != event.loops for ls in loops):
            return
        if counted and not event.branches_in(event.loops[0]):
            message = (
                f"the schedule counts epochs ({counted}) but is stepped on every batch; the learning rate soon "
                "reaches zero"
            )
            yield ctx.finding(self, event.node, message, related=made, fixes=[_per_epoch(ctx, event)])
        text = ctx.source_of(period) if period is not None else ""
        if _is_type(value, "CosineAnnealingLR") and text == ctx.source_of(epochs):
            message = f"CosineAnnealingLR counts epochs (a period of {text}), but is stepped on every batch"
            yield ctx.finding(self, event.node, message, related=made, fixes=[_per_epoch(ctx, event)])


def _per_batch(ctx: Context, training: Training, event: Event, steps: Sequence[Event]) -> Fix | None:
    """Return the fix that steps the schedule wherever the optimizer steps: at each batch, in this function."""
    step = steps[-1]
    if len(steps) != 1 or step.via or step.branches != event.branches or not _is_bare(event):
        return None
    updates = [u for u in training.of("update") if u.loops == step.loops and u.index > step.index]
    behind = (updates or steps)[0].statement
    return ctx.fix("Step it on every batch", *moved_across(ctx, event.statement, behind, after=True))


def _per_epoch(ctx: Context, event: Event) -> Fix | None:
    """Return the fix that steps the schedule behind the loop over the batches."""
    batches = event.loops[-2]
    if event.branches_in(event.loops[-1]) or not _is_bare(event):
        return None
    return ctx.fix("Step it once per epoch", *moved_across(ctx, event.statement, batches, after=True))


def _is_bare(event: Event) -> bool:
    """Say whether a call is a statement, and is given nothing: it means the same in another loop."""
    call = event.node
    bare = isinstance(call, ast.Call) and not call.args and not call.keywords
    return bare and isinstance(event.statement, ast.Expr) and event.statement.value is call


def _scheduler(ctx: Context, event: Event) -> Value:
    assert isinstance(event.node, ast.Call)
    return ctx.value(event.node.func.value) if isinstance(event.node.func, ast.Attribute) else UNKNOWN


def _is_type(value: Value, name: str) -> bool:
    return isinstance(value, Object) and value.type.endswith("." + name)


def _epochs_counted(value: Object) -> str | None:
    """Return the argument of a schedule that makes the learning rate vanish within the batches of a few epochs."""
    gamma, size = _number(value.arguments.get("gamma", 2), 0.1), _number(value.arguments.get("step_size", 1), None)
    if _is_type(value, "StepLR") and gamma is not None and size and gamma < 1:
        return f"step_size={size:g}" if gamma ** (_STEPS / size) < _VANISHED else None
    decay = _number(value.arguments.get("gamma", 1), None)
    if _is_type(value, "ExponentialLR") and decay is not None and decay < 1:
        return f"gamma={decay:g}" if decay**_STEPS < _VANISHED else None
    return None


def _number(value: Value | None, default: float | None) -> float | None:
    """Return a literal number; the default where it is not given, None where it is unknown."""
    if value is None:
        return default
    number = value.value if isinstance(value, Constant) else None
    return float(number) if isinstance(number, (int, float)) and number > 0 else None


def _turns(loop: Loop) -> ast.expr | None:
    """Return how often ``for epoch in range(epochs)`` runs."""
    match loop:
        case ast.For(iter=ast.Call(func=ast.Name(id="range"), args=[turns])):
            return turns
        case _:
            return None
