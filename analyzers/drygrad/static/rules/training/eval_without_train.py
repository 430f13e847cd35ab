"""Rule DG710: training goes on in evaluation mode."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context, Loop
from drygrad.static.editing import inserted
from drygrad.static.loops import repeats
from drygrad.static.steps import Event, Training, plain_trainings
from drygrad.static.syntax import block_of


class EvalWithoutTrain(Rule):
    """
    ## What it does
    Finds loops that train a model, then call `eval()` on it, and never call `train()` before the next iteration; and an
    evaluation between `train()` and the loop that leaves the model in eval mode.

    ## Why is this bad?
    `eval()` lasts until `train()` is called. From the second epoch on the model trains without dropout, and its batch
    norms neither use nor update batch statistics. Nothing raises; the model is just worse than it should be.

    ## Example
    ```python
    model.train()
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            print(sum(criterion(model(x), y).item() for x, y in validation))
    ```
    Use instead:
    ```python
    for epoch in range(epochs):
        model.train()
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            print(sum(criterion(model(x), y).item() for x, y in validation))
    ```

    ## Fix safety
    Unsafe: it changes how the model trains.
    """

    code, name, since = "DG710", "eval-without-train", "0.1"
    severity = "warning"
    VALID = [
        Valid("""
            for epoch in range(9):
                model.train()
                for x in loader:
                    optimizer.zero_grad()
                    model(x).mean().backward()
                    optimizer.step()
                model.eval()
        """),
        Valid("""
            def evaluate(net, loader):
                net.eval()
                with torch.no_grad():
                    result = sum(net(x).mean() for x in loader)
                net.train()
                return result

            for epoch in range(9):
                for x in loader:
                    optimizer.zero_grad()
                    model(x).mean().backward()
                    optimizer.step()
                evaluate(model, loader)
        """),
        Valid("""
            for epoch in range(9):
                train_epoch(model, loader, optimizer)  # may call train()
                model.eval()
        """),
        Valid("""
            for epoch in range(9):
                teacher.eval()
                model.eval()  # on purpose: batch norm stays frozen
                for x in loader:
                    optimizer.zero_grad()
                    model(x).mean().backward()
                    optimizer.step()
        """),
        Valid("""
            for epoch in range(9):
                for x in loader:
                    optimizer.zero_grad()
                    model(x).mean().backward()
                    optimizer.step()
            model.eval()
        """),
        Valid("""
            def evaluate(model, data):
                was_training = model.training
                model.eval()
                result = sum(model(x).mean() for x in data)
                model.train(was_training)
                return result

            for epoch in range(9):
                model.train()
                for i, x in enumerate(loader):
                    optimizer.zero_grad()
                    model(x).mean().backward()
                    optimizer.step()
                    if i % 100 == 0:
                        evaluate(model, validation)
        """),
        Valid("""
            for epoch in range(9):
                model.train()
                for i, x in enumerate(loader):
                    optimizer.zero_grad()
                    model(x).mean().backward()
                    optimizer.step()
                    if i == 100:
                        model.eval()
                        print(model(x))
                        break
        """),
        Valid("""
            def frozen(model):
                model.eval()  # on purpose: batch norm stays frozen

            model.train()
            frozen(model)
            for x in loader:
                optimizer.zero_grad()
                model(x).mean().backward()
                optimizer.step()
        """),
        Valid("""
            def evaluate(model, data):
                model.eval()
                return sum(model(x).mean() for x in data)

            model.train()
            evaluate(model, validation)
            for epoch in range(9):
                model.train()
                for x in loader:
                    optimizer.zero_grad()
                    model(x).mean().backward()
                    optimizer.step()
        """),
    ]
    INVALID = [
        Invalid(
            """
            def evaluate(net, loader):
                net.eval()
                with torch.no_grad():
                    return [net(x) for x in loader]

            def train(model, optimizer, loader):
                for epoch in range(9):
                    model.train()
                    for i, x in enumerate(loader):
                        optimizer.zero_grad()
                        loss = model(x).mean()
                        loss.backward()
                        optimizer.step()
                        if i % 100 == 0:
                            evaluate(model, loader)
            """,
            """
            def evaluate(net, loader):
                net.eval()
                with torch.no_grad():
                    return [net(x) for x in loader]

            def train(model, optimizer, loader):
                for epoch in range(9):
                    model.train()
                    for i, x in enumerate(loader):
                        optimizer.zero_grad()
                        loss = model(x).mean()
                        loss.backward()
                        optimizer.step()
                        if i % 100 == 0:
                            evaluate(model, loader)
                            model.train()
            """,
            at=(15, 16, 15, 39),
        ),
        Invalid(
            """
            def evaluate(net, loader):
                net.eval()
                with torch.no_grad():
                    return sum(net(x).mean() for x in loader)

            def train(model, optimizer, loader):
                model.train()
                print("before", evaluate(model, loader))
                for x in loader:
                    optimizer.zero_grad()
                    loss = model(x).mean()
                    loss.backward()
                    optimizer.step()
            """,
            """
            def evaluate(net, loader):
                net.eval()
                with torch.no_grad():
                    return sum(net(x).mean() for x in loader)

            def train(model, optimizer, loader):
                model.train()
                print("before", evaluate(model, loader))
                model.train()
                for x in loader:
                    optimizer.zero_grad()
                    loss = model(x).mean()
                    loss.backward()
                    optimizer.step()
            """,
            at=(8, 20, 8, 43),
        ),
        Invalid(
            """
            class Trainer:
                def __init__(self, model, optimizer, train, valid):
                    self.model, self.optimizer, self.train, self.valid = model, optimizer, train, valid

                def train_epoch(self):
                    for x, y in self.train:
                        self.optimizer.zero_grad()
                        loss = F.cross_entropy(self.model(x), y)
                        loss.backward()
                        self.optimizer.step()

                @torch.no_grad()
                def validate(self):
                    self.model.eval()
                    return [self.model(x) for x, _ in self.valid]

                def fit(self, epochs):
                    for epoch in range(epochs):
                        self.train_epoch()
                        self.validate()
            """,
            """
            class Trainer:
                def __init__(self, model, optimizer, train, valid):
                    self.model, self.optimizer, self.train, self.valid = model, optimizer, train, valid

                def train_epoch(self):
                    for x, y in self.train:
                        self.optimizer.zero_grad()
                        loss = F.cross_entropy(self.model(x), y)
                        loss.backward()
                        self.optimizer.step()

                @torch.no_grad()
                def validate(self):
                    self.model.eval()
                    return [self.model(x) for x, _ in self.valid]

                def fit(self, epochs):
                    for epoch in range(epochs):
                        self.model.train()
                        self.train_epoch()
                        self.validate()
            """,
            at=(19, 12, 19, 30),
        ),
        Invalid(
            """
            model.train()
            for epoch in range(9):
                for x in loader:
                    optimizer.zero_grad()
                    model(x).mean().backward()
                    optimizer.step()
                model.eval()
                with torch.no_grad():
                    print(sum(model(x).mean() for x in validation))
            """,
            """
            model.train()
            for epoch in range(9):
                model.train()
                for x in loader:
                    optimizer.zero_grad()
                    model(x).mean().backward()
                    optimizer.step()
                model.eval()
                with torch.no_grad():
                    print(sum(model(x).mean() for x in validation))
            """,
            at=(1, 0, 1, 13),
        ),
        Invalid(
            """
            def evaluate(net, loader):
                net.eval()
                with torch.no_grad():
                    return [net(x) for x in loader]

            def train(model, optimizer, loader):
                for epoch in range(9):
                    for x in loader:
                        optimizer.zero_grad()
                        loss = model(x).mean()
                        loss.backward()
                        optimizer.step()
                    if epoch % 3 == 0:
                        evaluate(model, loader)
            """,
            """
            def evaluate(net, loader):
                net.eval()
                with torch.no_grad():
                    return [net(x) for x in loader]

            def train(model, optimizer, loader):
                for epoch in range(9):
                    model.train()
                    for x in loader:
                        optimizer.zero_grad()
                        loss = model(x).mean()
                        loss.backward()
                        optimizer.step()
                    if epoch % 3 == 0:
                        evaluate(model, loader)
            """,
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        reported: set[ast.AST] = set()
        for training in plain_trainings(ctx):
            for event in training.of("eval"):
                loop = self._training_loop(training, event, ctx)
                if loop is not None and event.node not in reported:
                    reported.add(event.node)
                    yield self._finding(ctx, training, event, loop)
            for event in training.of("eval"):
                if event.node not in reported and self._is_check_before(training, event):
                    reported.add(event.node)
                    yield self._finding_before(ctx, event)

    def _finding(self, ctx: Context, training: Training, event: Event, loop: Loop) -> Finding:
        """Put the fault at the train() that stands above the loop; where there is none at the eval().

        Where a function that the loop calls has the eval(), it is the loop that lacks a train(): before what trains.
        Where train() begins each epoch, or the evaluation comes now and then between two steps, it is the evaluation
        that lacks one behind it.
        """
        above = [e for e in training.of("train") if e.receiver == event.receiver and not e.in_loop(loop) and not e.via]
        once = next((e for e in reversed(above) if e.index < event.index and not e.branches), None)
        head = (
            "eval() lasts until train() is called"
            if once is None
            else ("train() is called once, and eval() lasts until the next call")
        )
        related = [("the training loop", loop.test if isinstance(loop, ast.While) else loop.target)]
        trained = next(b for b in training.within(loop, "backward") if b.index < event.index)
        place = event.node if not event.via or not trained.via else trained.via[0]
        sometimes = bool(event.branches_in(loop)) and trained.loops[0] is loop
        between = once is not None and (sometimes or bool(once.loops))
        if between:
            place, head = event.via[0] if event.via else event.node, "eval() lasts until train() is called"
        elif once is not None:
            place = once.node
        return ctx.finding(
            self,
            place,
            f"{head}; later iterations of this loop train {event.receiver} in eval mode",
            related=related if place is event.node else [*related, ("eval() is called here", event.node)],
            fixes=[self._fix(ctx, event, loop, between)],
        )

    def _finding_before(self, ctx: Context, event: Event) -> Finding:
        text = f"{event.receiver}.train()"
        return ctx.finding(
            self,
            event.via[0],
            f"this evaluation leaves {event.receiver} in eval mode; nothing calls train() before training continues",
            related=[("eval() is called here", event.node)],
            fixes=[ctx.fix(f"Insert `{text}` after it", inserted(ctx, event.anchor, text, after=True))],
        )

    def _training_loop(self, training: Training, event: Event, ctx: Context) -> Loop | None:
        """Return the loop that trains a model, switches it to evaluation and trains it again."""
        for loop in event.loops:
            trained = [b for b in training.within(loop, "backward") if b.index < event.index and not b.excludes(event)]
            if not trained or not self._is_trained(training, event, loop):
                continue
            back = training.within(loop, "train")
            hidden = training.hides(loop, "model")
            later = [b for b in training.within(loop, "backward") if b.index > event.index]
            goes_on = repeats(loop) and not _leaves(ctx, event, loop)
            return loop if not back and not hidden and not later and goes_on else None
        return None

    def _is_check_before(self, training: Training, event: Event) -> bool:
        """Say whether a function evaluates a model that train() was called on, and training follows without another."""
        if not event.via or event.branches or event.loops:
            return False
        mine = [e for e in training.events if e.receiver == event.receiver]
        before = [
            e for e in mine if e.kind == "train" and e.index < event.index and not (e.via or e.branches or e.loops)
        ]
        runs = any(e.kind == "forward" and e.via[:1] == event.via[:1] and e.index > event.index for e in mine)
        trained = next((b for b in training.of("backward") if b.index > event.index and b.loops), None)
        if not before or not runs or trained is None or event.receiver is None:
            return False
        loop = trained.loops[-1]
        passes = any(e.kind == "forward" and e.in_loop(loop) and e.loops == trained.loops for e in mine)
        between = [e for e in training.events if before[-1].index < e.index and e.kind in ("train", "unseen")]
        switched = (e for e in between if e.kind == "train" or e.roles & {"model", "name"})
        return passes and all(e.index > trained.index and not e.in_loop(loop) for e in switched)

    def _is_trained(self, training: Training, event: Event, loop: Loop) -> bool:
        """Say whether the model runs forward before a backward in the loop, before it is switched."""
        forwards = [f for f in training.within(loop, "forward") if f.receiver == event.receiver]
        return event.receiver is not None and any(
            f.index < b.index < event.index and f.loops == b.loops
            for f in forwards
            for b in training.within(loop, "backward")
        )

    def _fix(self, ctx: Context, event: Event, loop: Loop, between: bool) -> Fix | None:
        if event.receiver is None or loop not in ctx.loops(event.anchor):
            return None
        text = f"{event.receiver}.train()"
        if between:
            return ctx.fix(f"Insert `{text}` after the evaluation", _behind_evaluation(ctx, event, text))
        return ctx.fix(f"Insert `{text}` at the start of the loop", inserted(ctx, loop.body[0], text))


def _behind_evaluation(ctx: Context, event: Event, text: str) -> Edit | None:
    """Switch back after the function that evaluates, or after what follows eval() in its block."""
    last = event.anchor if event.via else block_of(ctx, event.anchor)[-1]
    return inserted(ctx, last, text, after=True)


def _leaves(ctx: Context, event: Event, loop: Loop) -> bool:
    """Say whether the loop ends where it is switched."""
    if loop not in ctx.loops(event.anchor):
        return False
    ends = (ast.Return, ast.Raise, ast.Break) if ctx.loops(event.anchor)[0] is loop else (ast.Return, ast.Raise)
    return isinstance(block_of(ctx, event.anchor)[-1], ends)
