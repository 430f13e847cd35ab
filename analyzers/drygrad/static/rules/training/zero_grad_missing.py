"""Rule DG703: zero_grad missing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.parsing import parsed_expression
from drygrad.static.context import Context, Loop
from drygrad.static.editing import inserted
from drygrad.static.loops import repeats
from drygrad.static.rules.training.iterations import binds, training_loops
from drygrad.static.rules.training.scalers import text_of_optimizer
from drygrad.static.steps import Event, Training, plain_trainings
from drygrad.static.steps.parameters import may_clear, resting_on
from drygrad.static.syntax import bound_names
from drygrad.static.tree import walk


class ZeroGradMissing(Rule):
    """
    ## What it does
    Finds training loops that call `backward()` and `step()`, or update parameters by hand, in each iteration but never
    clear the gradients, or only clear them outside the loop.

    ## Why is this bad?
    `backward()` adds to the existing gradients. Without `zero_grad()` every step applies the sum over all batches so
    far, including gradients of outdated weights: training diverges or stalls, without an error. (It costs no memory:
    the sum is as large as one gradient.)

    Loops are not reported if they pass the optimizer to code that is not visible, if they create the optimizer, or if a
    training framework is imported.

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
            "for x in loader:\n    model(x).sum().backward()\n    with torch.no_grad():\n"
            "        for w in weights:\n            w -= 0.1 * w.grad\n            w.grad = None"
        ),
        Valid(  # what one optimizer clears may be the other's
            "for x in loader:\n    first.zero_grad()\n    model(x).sum().backward()\n    first_opt.step()\n"
            "    second_opt.step()"
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
            """
            G, D = nn.Linear(2, 4), nn.Linear(4, 1)
            g_opt, d_opt = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
            for real in loader:
                fake = G(torch.randn(8, 2))
                d_loss = D(fake.detach()).mean() - D(real).mean()
                d_loss.backward()
                d_opt.step()
                g_opt.zero_grad()
                g_loss = -D(fake).mean()
                g_loss.backward()
                g_opt.step()
            """,
            """
            G, D = nn.Linear(2, 4), nn.Linear(4, 1)
            g_opt, d_opt = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
            for real in loader:
                fake = G(torch.randn(8, 2))
                d_loss = D(fake.detach()).mean() - D(real).mean()
                d_opt.zero_grad()
                d_loss.backward()
                d_opt.step()
                g_opt.zero_grad()
                g_loss = -D(fake).mean()
                g_loss.backward()
                g_opt.step()
            """,
            at=(6, 4, 6, 21),
        ),
        Invalid(
            """
            w = torch.zeros(3, requires_grad=True)
            for x in torch.randn(10, 3):
                loss = (w * x).sum() ** 2
                loss.backward()
                with torch.no_grad():
                    w -= 0.1 * w.grad
            """,
            """
            w = torch.zeros(3, requires_grad=True)
            for x in torch.randn(10, 3):
                loss = (w * x).sum() ** 2
                loss.backward()
                with torch.no_grad():
                    w -= 0.1 * w.grad
                    w.grad = None
            """,
            at=(4, 4, 4, 19),
        ),
        Invalid(
            """
            def fit(f, o, batches):
                for a, b in batches:
                    e = F.mse_loss(f(a), b)
                    e.backward()
                    o.step()
            """,
            """
            def fit(f, o, batches):
                for a, b in batches:
                    e = F.mse_loss(f(a), b)
                    o.zero_grad()
                    e.backward()
                    o.step()
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
            for loop in training_loops(training, "step", "hand_step"):
                step = self._uncleared(ctx, training, loop)
                if step is not None and loop not in reported:
                    reported.add(loop)
                    yield self._finding(ctx, training, loop, step)

    def _finding(self, ctx: Context, training: Training, loop: Loop, step: Event) -> Finding:
        """Put the fault where a clearing is missing, or where one stands that misses the loop."""
        backward = _applied(training, loop, step)
        outside = _clearing_around(training, loop, step)
        if _waits_for_group(backward, step):
            place, message = (
                step.node,
                ("nothing clears the gradients after this step; the next one applies them again"),
            )
        elif outside is not None:
            place, message = (
                outside.node,
                (
                    "the gradients are cleared outside the batch loop; backward() accumulates over batches and each "
                    "step applies the sum"
                ),
            )
        else:
            place, message = (
                backward.node,
                (
                    "the gradients are never cleared in this loop; backward() accumulates over batches and each step "
                    "applies the sum"
                ),
            )
        others = [("backward() accumulates into them here", backward.node), ("the step applies them here", step.node)]
        return resting_on(
            ctx,
            ctx.finding(
                self,
                place,
                message,
                related=[(words, other) for words, other in others if other is not place],
                fixes=[self._fix(ctx, training, loop, step)],
            ),
            step,
        )

    def _uncleared(self, ctx: Context, training: Training, loop: Loop) -> Event | None:
        """Return the first optimizer step of a loop whose gradients nothing in the loop clears."""
        if not repeats(loop) or training.within(loop, "grad_edit", "autograd_grad"):
            return None
        if training.hides(loop, "optimizer", "scaler"):
            return None
        steps = training.within(loop, "step") or [s for s in training.within(loop, "hand_step") if _is_for(s, loop)]
        if any(_runs_unseen(training, step) or _is_made_in(ctx, step, loop) for step in steps):
            return None
        clearings = training.within(loop, "zero_grad")
        uncleared = (s for s in steps if not any(may_clear(ctx, clearing, s) for clearing in clearings))
        return next((s for s in uncleared if not clearings or _follows_own_backward(training, loop, s)), None)

    def _fix(self, ctx: Context, training: Training, loop: Loop, step: Event) -> Fix | None:
        backward = _applied(training, loop, step)
        if step.kind == "hand_step":
            text = f"{step.receiver}.grad = None"
            return ctx.fix(f"Insert `{text}` after the update", inserted(ctx, step.statement, text, after=True))
        source = text_of_optimizer(ctx, step)
        others = {s.receiver for s in training.within(loop, "step")} - {step.receiver}
        if source is None or (others and not training.within(loop, "zero_grad")):
            return None
        text = f"{source}.zero_grad()"
        together = backward.statement is not step.statement and backward.branches == step.branches
        if together and backward.loops == step.loops and backward.via == step.via:
            return ctx.fix(f"Insert `{text}` before `backward()`", inserted(ctx, backward.statement, text))
        return ctx.fix(f"Insert `{text}` after the step", inserted(ctx, step.statement, text, after=True))


def _is_made_in(ctx: Context, step: Event, loop: Loop) -> bool:
    """Say whether each turn steps with another optimizer, or updates other tensors, than the one before."""
    if step.kind == "step":
        return binds(loop, step.receiver)
    owner = parsed_expression(step.receiver or "_")
    names = {n.id for n in ast.walk(owner) if isinstance(n, ast.Name)}
    for inner in ctx.loops(step.node):
        if inner is loop or not isinstance(inner, ast.For):
            break
        names = names - bound_names(inner.target) | {n.id for n in walk(inner.iter) if isinstance(n, ast.Name)}
    updated = {n.target for n in walk(loop) if isinstance(n, ast.AugAssign)}
    bound = (n for n in walk(loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n not in updated)
    return any(n.id in names for n in bound)


def _is_for(step: Event, loop: Loop) -> bool:
    """Say whether an update by hand is one of each turn: not within a further loop, and of what outlives the turn."""
    return step.loops[0] is loop


def _runs_unseen(training: Training, step: Event) -> bool:
    """Say whether a step calls a closure that the file does not show."""
    return step.closure and not any(b.via[:1] == (step.node,) for b in training.of("backward"))


def _applied(training: Training, loop: Loop, step: Event) -> Event:
    """Return the last backward of a loop before a step, else the first of the loop."""
    backwards = training.within(loop, "backward")
    before = [b for b in backwards if b.index < step.index]
    return before[-1] if before and training.within(loop, "zero_grad") else backwards[0]


def _follows_own_backward(training: Training, loop: Loop, step: Event) -> bool:
    """Say whether a backward of the loop stands before a step, and no other step in between that it may be for."""
    backward = _applied(training, loop, step)
    between = training.between(backward, step, "step", "zero_grad")
    return backward.index < step.index and not between and step.surely_with(backward)


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
