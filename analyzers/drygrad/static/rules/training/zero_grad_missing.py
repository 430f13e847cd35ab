"""Rule DG703: zero_grad missing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context, Loop
from drygrad.static.editing import inserted
from drygrad.static.loops import repeats
from drygrad.static.rules.training.iterations import binds, training_loops
from drygrad.static.rules.training.scalers import text_of_optimizer
from drygrad.static.steps import Event, Training, plain_trainings


class ZeroGradMissing(Rule):
    """
    ## What it does
    Finds training loops that run `backward()` and `step()` in each turn and never clear the gradients, or clear them
    only outside of it.

    ## Why is this bad?
    `backward()` adds to the gradients that are there. Without `zero_grad()` every step applies the sum of all batches
    seen so far, old ones computed with weights long gone: the updates are wrong and training diverges or stalls, with
    no error. (It costs no memory: the sum has the size of one gradient.)

    A loop is left alone where code that cannot be seen is given the optimizer, where the optimizer is made anew in it,
    and where a training framework is imported.

    ## Example
    ```python
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
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

    code, name, since = "DG703", "zero-grad-missing", "0.1"
    severity = "warning"
    VALID = [
        Valid("for x in loader:\n    optimizer.zero_grad()\n    model(x).sum().backward()\n    optimizer.step()"),
        Valid("for x in loader:\n    model(x).sum().backward()\n    optimizer.step()\n    model.zero_grad()"),
        Valid(
            "for x in loader:\n    model(x).sum().backward()\n    optimizer.step()\n"
            "    for p in model.parameters():\n        p.grad = None"
        ),
        Valid(  # a part of the gradients is kept by intention
            "for x in loader:\n    model(x).sum().backward()\n    optimizer.step()\n"
            "    for p in model.parameters():\n        p.grad.mul_(0.5)"
        ),
        Valid("def step(loss, optimizer):\n    # the caller clears\n    loss.backward()\n    optimizer.step()"),
        Valid("for x in loader:\n    model(x).sum().backward()\n    apply_gradients(optimizer)\n    optimizer.step()"),
        Valid(
            "for fold in range(5):\n    model = nn.Linear(3, 1)\n    optimizer = torch.optim.SGD(model.parameters())\n"
            "    model(x).sum().backward()\n    optimizer.step()"
        ),
        Valid(
            "import torch\nfrom accelerate import Accelerator\nfor x in loader:\n    loss = model(x).sum()\n"
            "    loss.backward()\n    optimizer.step()"
        ),
        Valid(
            "def clear(opt):\n    opt.zero_grad()\n\n"
            "for x in loader:\n    clear(optimizer)\n    model(x).sum().backward()\n    optimizer.step()"
        ),
        Valid(
            "for x in loader:\n    optimizer.zero_grad()\n    for part in x:\n        model(part).sum().backward()\n"
            "    optimizer.step()"
        ),
    ]
    INVALID = [
        Invalid(
            "for x, y in loader:\n    loss = criterion(model(x), y)\n    loss.backward()\n    optimizer.step()",
            "for x, y in loader:\n    loss = criterion(model(x), y)\n    optimizer.zero_grad()\n    loss.backward()\n"
            "    optimizer.step()",
            at=(3, 4, 3, 19),
        ),
        Invalid(
            """
            def train(model, loader, epochs):
                optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
                optimizer.zero_grad()
                for epoch in range(epochs):
                    for i, (x, y) in enumerate(loader):
                        loss = F.cross_entropy(model(x), y) / 4
                        loss.backward()
                        if (i + 1) % 4 == 0 or i + 1 == len(loader):
                            optimizer.step()  # once in four
            """,
            """
            def train(model, loader, epochs):
                optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
                optimizer.zero_grad()
                for epoch in range(epochs):
                    for i, (x, y) in enumerate(loader):
                        loss = F.cross_entropy(model(x), y) / 4
                        loss.backward()
                        if (i + 1) % 4 == 0 or i + 1 == len(loader):
                            optimizer.step()  # once in four
                            optimizer.zero_grad()
            """,
            at=(9, 16, 9, 32),
        ),
        Invalid(
            """
            def train(model, optimizer, loader, epochs):
                for epoch in range(epochs):
                    optimizer.zero_grad()
                    for x, y in loader:
                        loss = F.mse_loss(model(x), y)
                        loss.backward()
                        optimizer.step()
            """,
            """
            def train(model, optimizer, loader, epochs):
                for epoch in range(epochs):
                    optimizer.zero_grad()
                    for x, y in loader:
                        loss = F.mse_loss(model(x), y)
                        optimizer.zero_grad()
                        loss.backward()
                        optimizer.step()
            """,
            at=(3, 8, 3, 29),
        ),
        Invalid(
            """
            class Trainer:
                def __init__(self, model):
                    self.model = model
                    self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

                def step(self, x, y):
                    loss = F.mse_loss(self.model(x), y)
                    loss.backward()
                    self.optimizer.step()

                def fit(self, loader):
                    for x, y in loader:
                        self.step(x, y)
            """,
            """
            class Trainer:
                def __init__(self, model):
                    self.model = model
                    self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

                def step(self, x, y):
                    loss = F.mse_loss(self.model(x), y)
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()

                def fit(self, loader):
                    for x, y in loader:
                        self.step(x, y)
            """,
        ),
        Invalid(
            "opt = torch.optim.SGD(model.parameters())\nscaler = torch.amp.GradScaler('cuda')\nfor x in loader:\n"
            "    scaler.scale(model(x).sum()).backward()\n    scaler.step(opt)\n    scaler.update()",
            "opt = torch.optim.SGD(model.parameters())\nscaler = torch.amp.GradScaler('cuda')\nfor x in loader:\n"
            "    opt.zero_grad()\n    scaler.scale(model(x).sum()).backward()\n    scaler.step(opt)\n"
            "    scaler.update()",
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        reported: set[Loop] = set()
        for training in plain_trainings(ctx):
            for loop in training_loops(training):
                step = self._uncleared(training, loop)
                if step is not None and loop not in reported:
                    reported.add(loop)
                    yield self._finding(ctx, training, loop, step)

    def _finding(self, ctx: Context, training: Training, loop: Loop, step: Event) -> Finding:
        """Put the fault where a clearing is missing, or where one stands that misses the loop."""
        backward = training.within(loop, "backward")[0]
        outside = _clearing_around(training, loop, step)
        if _waits_for_group(backward, step):
            place, message = step.node, "nothing clears the gradients after this step: the next one applies them again"
        elif outside is not None:
            place, message = (
                outside.node,
                (
                    "this clears the gradients outside of the loop over the batches: backward() adds to those of all "
                    "batches so far, and each step applies the sum"
                ),
            )
        else:
            place, message = (
                backward.node,
                (
                    "the gradients are never cleared in this loop: backward() adds to those of all batches so far, "
                    "and each step applies the sum"
                ),
            )
        others = [("backward() adds to them here", backward.node), ("the step applies them here", step.node)]
        return ctx.finding(
            self,
            place,
            message,
            related=[(words, other) for words, other in others if other is not place],
            fixes=[self._fix(ctx, training, loop, step)],
        )

    def _uncleared(self, training: Training, loop: Loop) -> Event | None:
        """Return the optimizer step of a loop in which nothing clears the gradients."""
        steps = training.within(loop, "step")
        quiet = not training.within(loop, "zero_grad", "grad_edit", "autograd_grad")
        if not quiet or not repeats(loop) or training.hides(loop, "optimizer", "scaler"):
            return None
        if any(step.closure or binds(loop, step.receiver) for step in steps):
            return None
        return steps[0]

    def _fix(self, ctx: Context, training: Training, loop: Loop, step: Event) -> Fix | None:
        backward = training.within(loop, "backward")[0]
        source = text_of_optimizer(ctx, step)
        if source is None or len({s.receiver for s in training.within(loop, "step")}) > 1:
            return None
        text = f"{source}.zero_grad()"
        together = backward.statement is not step.statement and backward.branches == step.branches
        if together and backward.loops == step.loops and backward.via == step.via:
            return ctx.fix(f"Insert {text} before backward()", inserted(ctx, backward.statement, text))
        return ctx.fix(f"Insert {text} after the step", inserted(ctx, step.statement, text, after=True))


def _waits_for_group(backward: Event, step: Event) -> bool:
    """Say whether a step comes once in several backward passes."""
    return not step.surely_with(backward) or len(backward.loops) > len(step.loops)


def _clearing_around(training: Training, loop: Loop, step: Event) -> Event | None:
    """Return what clears the gradients once for all turns of a loop: in a loop around it, or just before it."""
    cleared = [e for e in training.of("zero_grad") if e.receiver is not None and not e.branches]
    same = [e for e in cleared if "optimizer" not in e.roles or e.receiver == step.receiver]
    around = step.loops[step.loops.index(loop) + 1 :]
    beside = [e for e in same if e.loops == around]
    before = [e for e in same if e.index < step.index and set(e.loops) <= set(around)]
    return next(iter([*beside, *reversed(before)]), None)
