"""Rule DG502: a running total that keeps the graph of every step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import UNKNOWN, Constant, Number, Tensor
from drygrad.static.rules.memory.graphs import Step, graph_of, repeated_around
from drygrad.static.rules.memory.keeping import keepings
from drygrad.static.rules.memory.telling import told, told_of_handed


class GraphAccumulated(Rule):
    """
    ## What it does
    Finds running totals and averages (`total_loss += loss`, `torch.lerp(average, loss, 0.1)`) of tensors that still
    carry their graph, although the total is never backpropagated.

    ## Why is this bad?
    The total links the graphs of all steps, so memory grows from step to step. How fast depends on backward:

    - If none has run, the graph of each step holds everything saved for it: all activations of every step stay on the
      device until it runs out of memory.
    - If `backward()` has run, the saved tensors are freed, but the graph's nodes stay in host memory: about 1 kB per
      operation and step (25 kB per step for ten linear layers with ReLU, measured with torch 2.13). This is an `info`.

    If the total is reset every few steps, after each group of micro-batches, the graph stays short; this is a hint.

    A total that is backpropagated (several losses in one step) is intended and not reported.

    ## Example
    ```python
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        total_loss += loss
    ```
    Use instead:
    ```python
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        total_loss += loss.detach()
    ```
    `loss.item()` makes the total a Python number instead, and waits for the device each time.

    ## Fix safety
    Safe: the total has the same value, and no backward runs through it.
    """

    code, name, since = "DG502", "graph-accumulated", "0.1"
    severity = "warning"
    VALID = [
        Valid("for x in loader:\n    total, n = 0.0, 1\n    loss = model(x)\n    total += loss\n    loss.backward()"),
        Valid("""
            class Meter:
                def __init__(self):
                    self.total, self.count, self.kept = 0.0, 0, 0.0

                def update(self, value, n=1):
                    self.total += float(value) * n
                    self.count += n

                def add(self, value):
                    self.kept += value

            def train(model, loader, criterion, optimizer):
                meter = Meter()
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = criterion(model(x), y)
                    loss.backward()
                    optimizer.step()
                    meter.update(loss, len(x))
                    meter.add(loss.item())
                return meter.total / meter.count
        """),
        Valid("""
            def train(model, loader, criterion, optimizer):
                running_loss = 0.0
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = criterion(model(x), y)
                    loss.backward()
                    optimizer.step()
                    running_loss += loss.item()
                return running_loss / len(loader)
        """),
        Valid("""
            def step(model: nn.Linear, batches, optimizer):
                total = 0
                for x, y in batches:
                    total += F.mse_loss(model(x), y)
                optimizer.zero_grad()
                total.backward()
                optimizer.step()
                print(total)
        """),
        Valid("""
            def train(model, loader, criterions, optimizer):
                for x, y in loader:
                    out = model(x)
                    loss = 0
                    for criterion in criterions:
                        part = criterion(out, y)
                        loss += part
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
        """),
        Valid("""
            def penalty(model: nn.Linear, batches):
                total = 0
                for x in batches:
                    total += model(x).pow(2).mean()
                return total
        """),
        Valid("""
            def train(model, loader, criterion, optimizer):
                total = 0
                for x, y in loader:
                    loss = criterion(model(x), y)
                    loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    with torch.no_grad():
                        total += loss
                print(total)
        """),
        Valid("""
            def train(model, loader, criterion, optimizer):
                for x, y in loader:
                    shown = 0
                    loss = criterion(model(x), y)
                    loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    shown += loss
                    print(shown)
        """),
        Valid(
            """
            class Language(nn.Module):
                def __init__(self, cell):
                    super().__init__()
                    self.cell = cell

                def forward(self, x, y):
                    loss, log_likelihood, state = 0, 0, None
                    for i in range(x.shape[1]):
                        state, each = self.cell(state, x[:, i], y[:, i])
                        loss += each.mean()
                        log_likelihood += torch.sum(each)
                    return loss / len(x)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            net = nn.Linear(4, 2)
            average = torch.zeros(())
            for x, y in loader:
                average.mul_(0.9).add_(F.mse_loss(net(x), y), alpha=0.1)
            print(average.item())
            """,
            """
            net = nn.Linear(4, 2)
            average = torch.zeros(())
            for x, y in loader:
                average.mul_(0.9).add_(F.mse_loss(net(x), y).detach(), alpha=0.1)
            print(average.item())
            """,
            at=(4, 27, 4, 48),
        ),
        Invalid(
            """
            class Meter:
                def __init__(self):
                    self.total, self.count = 0.0, 0

                def update(self, value, n=1):
                    self.total += value * n
                    self.count += n

            def train(model, loader, criterion, optimizer):
                meter = Meter()
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = criterion(model(x), y)
                    loss.backward()
                    optimizer.step()
                    meter.update(loss, len(x))
                return meter.total / meter.count
            """,
            """
            class Meter:
                def __init__(self):
                    self.total, self.count = 0.0, 0

                def update(self, value, n=1):
                    self.total += value * n
                    self.count += n

            def train(model, loader, criterion, optimizer):
                meter = Meter()
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = criterion(model(x), y)
                    loss.backward()
                    optimizer.step()
                    meter.update(loss.detach(), len(x))
                return meter.total / meter.count
            """,
            at=(16, 21, 16, 25),
            severity="info",
        ),
        Invalid(
            """
            class Fitter:
                def __init__(self, model: nn.Linear, optimizer):
                    self.model, self.optimizer, self.smooth = model, optimizer, None

                def step(self, x, y):
                    loss = F.mse_loss(self.model(x), y)
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                    self.smooth = loss if self.smooth is None else 0.9 * self.smooth + 0.1 * loss
                    return float(self.smooth)

            def main(model: nn.Linear, optimizer, data):
                fitter = Fitter(model, optimizer)
                for x, y in data:
                    fitter.step(x, y)
            """,
            """
            class Fitter:
                def __init__(self, model: nn.Linear, optimizer):
                    self.model, self.optimizer, self.smooth = model, optimizer, None

                def step(self, x, y):
                    loss = F.mse_loss(self.model(x), y)
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                    self.smooth = loss if self.smooth is None else 0.9 * self.smooth + 0.1 * loss.detach()
                    return float(self.smooth)

            def main(model: nn.Linear, optimizer, data):
                fitter = Fitter(model, optimizer)
                for x, y in data:
                    fitter.step(x, y)
            """,
            severity="info",
        ),
        Invalid(
            """
            def train(model: nn.Linear, loader, optimizer, log):
                running = 0
                for i, (x, y) in enumerate(loader):
                    loss = F.mse_loss(model(x), y) / 4
                    running += loss
                    loss.backward()
                    if (i + 1) % 4 == 0:
                        optimizer.step()
                        optimizer.zero_grad()
                        log(running.item())
                        running = 0
            """,
            """
            def train(model: nn.Linear, loader, optimizer, log):
                running = 0
                for i, (x, y) in enumerate(loader):
                    loss = F.mse_loss(model(x), y) / 4
                    running += loss.detach()
                    loss.backward()
                    if (i + 1) % 4 == 0:
                        optimizer.step()
                        optimizer.zero_grad()
                        log(running.item())
                        running = 0
            """,
            severity="hint",
        ),
        Invalid(
            """
            class Learner:
                def __init__(self, model: nn.Linear, optimizer):
                    self.model, self.optimizer = model, optimizer
                    self.average = torch.zeros(())

                def step(self, x, y):
                    output = self.model(x)
                    loss = F.mse_loss(output, y)
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                    self.average = 0.9 * self.average + 0.1 * output.mean()
                    return float(self.average)

            def main(model: nn.Linear, optimizer, data):
                learner = Learner(model, optimizer)
                for x, y in data:
                    learner.step(x, y)
            """,
            """
            class Learner:
                def __init__(self, model: nn.Linear, optimizer):
                    self.model, self.optimizer = model, optimizer
                    self.average = torch.zeros(())

                def step(self, x, y):
                    output = self.model(x)
                    loss = F.mse_loss(output, y)
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                    self.average = 0.9 * self.average + (0.1 * output.mean()).detach()
                    return float(self.average)

            def main(model: nn.Linear, optimizer, data):
                learner = Learner(model, optimizer)
                for x, y in data:
                    learner.step(x, y)
            """,
            at=(12, 44, 12, 63),
            severity="info",
        ),
        Invalid(
            """
            def train(model, loader, criterion, optimizer, epochs):
                for epoch in range(epochs):
                    running_loss = 0.0
                    for x, y in loader:
                        optimizer.zero_grad()
                        loss = criterion(model(x), y)
                        loss.backward()
                        optimizer.step()
                        running_loss += loss
                    print(f"epoch {epoch}: {running_loss / len(loader):.3f}")
            """,
            """
            def train(model, loader, criterion, optimizer, epochs):
                for epoch in range(epochs):
                    running_loss = 0.0
                    for x, y in loader:
                        optimizer.zero_grad()
                        loss = criterion(model(x), y)
                        loss.backward()
                        optimizer.step()
                        running_loss += loss.detach()
                    print(f"epoch {epoch}: {running_loss / len(loader):.3f}")
            """,
            at=(9, 28, 9, 32),
            severity="info",
        ),
        Invalid(
            """
            model = nn.Linear(4, 1)
            model.eval()
            total = 0
            for x in torch.randn(100, 8, 4):
                loss = F.mse_loss(model(x), torch.zeros(8, 1))
                total = total + loss * len(x)
            print("loss", total.item() / 800)
            """,
            """
            model = nn.Linear(4, 1)
            model.eval()
            total = 0
            for x in torch.randn(100, 8, 4):
                loss = F.mse_loss(model(x), torch.zeros(8, 1))
                total = total + loss.detach() * len(x)
            print("loss", total.item() / 800)
            """,
        ),
        Invalid(
            """
            class Trainer:
                def fit(self, accelerator, loader):
                    self.total = torch.zeros(())
                    for batch in loader:
                        loss = self.model(**batch).loss
                        accelerator.backward(loss)
                        self.optimizer.step()
                        self.total += loss * batch["input_ids"].size(0)
            """,
            """
            class Trainer:
                def fit(self, accelerator, loader):
                    self.total = torch.zeros(())
                    for batch in loader:
                        loss = self.model(**batch).loss
                        accelerator.backward(loss)
                        self.optimizer.step()
                        self.total += loss.detach() * batch["input_ids"].size(0)
            """,
            severity="info",
        ),
    ]

    def visit_file(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        yield from told_of_handed(self, ctx, listed=False)

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        yield from self._check(node, ctx)

    def visit_assignment(self, node: ast.Assign | ast.AugAssign, ctx: Context) -> Iterator[Finding]:
        yield from self._check(node, ctx)

    def _check(self, node: ast.AST, ctx: Context) -> Iterator[Finding]:
        for keeping in keepings(node, ctx):
            step = repeated_around(node, keeping.name, ctx)
            if not keeping.linked or step is None or not _may_be_number(keeping.owner, ctx):
                continue
            if ctx.grad_enabled(ctx.statement(node)) is False:
                continue
            carrier = _carrier(keeping.kept, step, ctx)
            what = f"{ctx.source_of(keeping.owner)} links the graph of every {ctx.source_of(carrier)}"
            yield from told(self, keeping._replace(kept=carrier), step, ctx, what)


def _may_be_number(total: ast.expr, ctx: Context) -> bool:
    """Say whether a total is a number or tensor, not an object that adds in its own way (or a list)."""
    value = ctx.value(total)
    return value is UNKNOWN or isinstance(value, (Constant, Number, Tensor))


def _carrier(added: ast.expr, step: Step, ctx: Context) -> ast.expr:
    """Return the part of what is added that carries a graph: ``loss`` in ``loss * n``."""
    if isinstance(added, ast.BinOp) and isinstance(added.op, (ast.Mult, ast.Div)):
        for side in (added.left, added.right):
            if dotted_text(side) is not None and graph_of(side, step, ctx) is not None:
                return side
    return added
