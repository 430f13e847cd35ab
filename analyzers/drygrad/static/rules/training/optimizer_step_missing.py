"""Rule DG702: optimizer step missing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import inserted
from drygrad.static.roles import role_of
from drygrad.static.steps import Event, Training, plain_trainings
from drygrad.static.steps.parameters import resting_on
from drygrad.static.tree import walk


class OptimizerStepMissing(Rule):
    """
    ## What it does
    Finds training loops that compute and clear gradients but never call the optimizer's step.

    ## Why is this bad?
    Without `step()` no parameter ever changes: the loss does not fall, and nothing raises.

    Loops are not reported if any code reads the gradients or gets the optimizer, or if the file steps elsewhere.

    ## Example
    ```python
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
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
    Unsafe: it makes the loop train.
    """

    code, name, since = "DG702", "optimizer-step-missing", "0.1"
    severity = "warning"
    VALID = [
        Valid("for x in loader:\n    optimizer.zero_grad()\n    model(x).sum().backward()\n    optimizer.step()"),
        Valid("for x in loader:\n    optimizer.zero_grad()\n    model(x).sum().backward()\n    apply(optimizer)"),
        Valid("for x in loader:\n    model.zero_grad()\n    model(x).sum().backward()\n    saliency.append(x.grad)"),
        Valid(
            "for x in loader:\n    optimizer.zero_grad()\n    model(x).sum().backward()\n"
            "    norms.append(model.weight.grad.norm())"
        ),
        Valid(
            "def gradients(model, optimizer, loader):\n    for x in loader:\n        optimizer.zero_grad()\n"
            "        model(x).sum().backward()\n        yield model\n"
        ),
        Valid(
            "class T:\n    def epoch(self):\n        for x in self.loader:\n            self.optimizer.zero_grad()\n"
            "            self.model(x).sum().backward()\n            self.finish()\n"
            "    def finish(self):\n        self.optimizer.step()"
        ),
    ]
    INVALID = [
        Invalid(
            """
            def train(model, loader):
                optimizer = torch.optim.Adam(model.parameters())
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = F.cross_entropy(model(x), y)
                    loss.backward()
                    print(loss.item())
            """,
            """
            def train(model, loader):
                optimizer = torch.optim.Adam(model.parameters())
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = F.cross_entropy(model(x), y)
                    loss.backward()
                    optimizer.step()
                    print(loss.item())
            """,
            at=(6, 8, 6, 23),
        ),
        Invalid(
            """
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
            for epoch in range(10):
                for x in loader:
                    optimizer.zero_grad()
                    model(x).mean().backward()
                scheduler.step()
            """,
            """
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
            for epoch in range(10):
                for x in loader:
                    optimizer.zero_grad()
                    model(x).mean().backward()
                    optimizer.step()
                scheduler.step()
            """,
        ),
        Invalid(
            """
            class Trainer:
                def __init__(self, f, o):
                    self.f, self.o = f, torch.optim.Adam(f.parameters())

                def one(self, x, y):
                    self.o.zero_grad()
                    e = F.mse_loss(self.f(x), y)
                    e.backward()
                    return e.item()

                def run(self, batches):
                    return [self.one(x, y) for x, y in batches]

                def epoch(self, batches):
                    for x, y in batches:
                        self.one(x, y)
            """,
            """
            class Trainer:
                def __init__(self, f, o):
                    self.f, self.o = f, torch.optim.Adam(f.parameters())

                def one(self, x, y):
                    self.o.zero_grad()
                    e = F.mse_loss(self.f(x), y)
                    e.backward()
                    self.o.step()
                    return e.item()

                def run(self, batches):
                    return [self.one(x, y) for x, y in batches]

                def epoch(self, batches):
                    for x, y in batches:
                        self.one(x, y)
            """,
            at=(8, 8, 8, 20),
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        reported: set[ast.AST] = set()
        for training in plain_trainings(ctx):
            cleared = [e for e in training.of("zero_grad") if "optimizer" in e.roles and e.loops]
            if not cleared or training.of("step", "grad_edit", "autograd_grad") or self._used(ctx, training):
                continue
            clearing = cleared[0]
            backwards = [b for b in training.within(clearing.loops[0], "backward") if b.loops == clearing.loops]
            place = _place_of(backwards[-1], clearing) if backwards else None
            if place is not None and place not in reported:
                reported.add(place)
                yield resting_on(
                    ctx,
                    ctx.finding(
                        self,
                        place,
                        "gradients are computed and cleared but never applied: "
                        f"{clearing.receiver or 'the optimizer'} takes no step",
                        related=[("the gradients are cleared here", clearing.node)],
                        fixes=[self._fix(ctx, clearing, backwards[-1])],
                    ),
                    clearing,
                )

    def _used(self, ctx: Context, training: Training) -> bool:
        """Say whether anything else may apply the gradients: unseen code, or any other step of the file."""
        if any(e.roles & {"optimizer", "scaler", "name"} for e in training.of("unseen") if e.loops):
            return True
        for node in ctx.nodes(ast.Attribute):
            if node.attr in ("grad", "main_grad"):
                return True
            if node.attr == "step" and role_of(ctx, node.value) != "scheduler":
                return True
        return any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in walk(training.node))

    def _fix(self, ctx: Context, clearing: Event, backward: Event) -> Fix | None:
        node = clearing.node
        if backward.scaler is not None or clearing.via != backward.via or not isinstance(node, ast.Call):
            return None
        if not isinstance(node.func, ast.Attribute):
            return None
        text = f"{ctx.source_of(node.func.value)}.step()"
        return ctx.fix(f"Insert `{text}`", inserted(ctx, backward.statement, text, after=True))


def _place_of(backward: Event, clearing: Event) -> ast.Call | ast.stmt:
    """Return the backward, or the call behind which it stands in a helper of its own."""
    shared = sum(1 for mine, theirs in zip(backward.via, clearing.via, strict=False) if mine is theirs)
    return backward.via[shared] if shared < len(backward.via) else backward.node
