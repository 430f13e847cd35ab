"""Rule DG501: a list that keeps the graph of every step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context, FunctionNode, Loop
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import UNKNOWN, Sequence
from drygrad.static.loops import step_around
from drygrad.static.rules.memory.graphs import (
    detached,
    graph_of,
    home_of,
    is_differentiated,
    is_only_read,
    repeated_around,
)
from drygrad.static.rules.memory.handing import handed_over
from drygrad.static.syntax import assigned_in
from drygrad.static.tree import walk


class GraphKeptInList(Rule):
    """
    ## What it does
    Finds tensors that still carry their graph and are appended to a list in a loop, though no backward ever needs them
    again.

    ## Why is this bad?
    The list keeps the graph of every step alive, so memory grows from step to step. How much depends on the backward:

    - Where none has run, each graph holds everything that was saved for it: all activations of every step stay on the
      device until it is out of memory.
    - Where `backward()` has run, the saved tensors are gone, but the graph's nodes stay in host memory: some 1 kB for
      each operation of each step (24 kB per step for ten linear layers with their ReLU; measured with torch 2.13).

    A list that is summed or stacked and backpropagated later (REINFORCE, several losses) is meant so and not reported.

    ## Example
    ```python
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        losses.append(loss)
    ```
    Use instead:
    ```python
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        losses.append(loss.detach())
    ```
    `loss.item()` keeps a Python number instead, and waits for the device each time.

    ## Fix safety
    Safe: the list holds the same values, and no backward runs through it.
    """

    code, name, since = "DG501", "graph-kept-in-list", "0.1"
    severity = "warning"
    VALID = [
        Valid("""
            def train(model, loader, criterion, optimizer):
                losses = []
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = criterion(model(x), y)
                    loss.backward()
                    optimizer.step()
                    losses.append(loss.item())
                return losses
        """),
        Valid("""
            def train(model, loader, criterion, optimizer):
                losses = []
                for x, y in loader:
                    optimizer.zero_grad()
                    loss = criterion(model(x), y)
                    loss.backward()
                    optimizer.step()
                    loss = loss.detach()
                    losses.append(loss)
                return losses
        """),
        Valid("""
            def reinforce(policy: nn.Linear, states, rewards, optimizer):
                losses = []
                for state, reward in zip(states, rewards):
                    losses.append(-policy(state).log_softmax(-1).max() * reward)
                optimizer.zero_grad()
                loss = torch.stack(losses).sum()
                loss.backward()
                optimizer.step()
        """),
        Valid("""
            def total(model: nn.Linear, tasks):
                losses = []
                for x, y in tasks:
                    losses.append(F.mse_loss(model(x), y))
                return sum(losses)
        """),
        Valid("""
            def second_order(model, batches, criterion):
                kept = []
                for x, y in batches:
                    loss = criterion(model(x), y)
                    loss.backward(create_graph=True)
                    kept.append(loss)
                return kept
        """),
        Valid("""
            def train(model, loader, criterion, optimizer):
                for x, y in loader:
                    parts = []
                    loss = criterion(model(x), y)
                    loss.backward()
                    parts.append(loss)
                    print(parts)
        """),
        Valid("""
            layer = nn.Linear(4, 4)
            seen = []
            with torch.no_grad():
                for x in torch.randn(8, 4):
                    seen.append(layer(x))
            print(len(seen))
        """),
    ]
    INVALID = [
        Invalid(
            """
            class History:
                def __init__(self):
                    self.losses = []

                def add(self, step, loss):
                    self.losses.append((step, loss))

            def train(model, loader, criterion, optimizer):
                history = History()
                for step, (x, y) in enumerate(loader):
                    optimizer.zero_grad()
                    loss = criterion(model(x), y)
                    loss.backward()
                    optimizer.step()
                    history.add(step, loss)
                return history
            """,
            """
            class History:
                def __init__(self):
                    self.losses = []

                def add(self, step, loss):
                    self.losses.append((step, loss))

            def train(model, loader, criterion, optimizer):
                history = History()
                for step, (x, y) in enumerate(loader):
                    optimizer.zero_grad()
                    loss = criterion(model(x), y)
                    loss.backward()
                    optimizer.step()
                    history.add(step, loss.detach())
                return history
            """,
            at=(15, 26, 15, 30),
        ),
        Invalid(
            """
            class Trainer:
                def __init__(self, model, optimizer):
                    self.model, self.optimizer, self.history = model, optimizer, []

                def step(self, x, y):
                    loss = F.mse_loss(self.model(x), y)
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                    self.history.append({"loss": loss})

            def main(model, optimizer, data):
                trainer = Trainer(model, optimizer)
                for x, y in data:
                    trainer.step(x, y)
            """,
            """
            class Trainer:
                def __init__(self, model, optimizer):
                    self.model, self.optimizer, self.history = model, optimizer, []

                def step(self, x, y):
                    loss = F.mse_loss(self.model(x), y)
                    self.optimizer.zero_grad()
                    loss.backward()
                    self.optimizer.step()
                    self.history.append({"loss": loss.detach()})

            def main(model, optimizer, data):
                trainer = Trainer(model, optimizer)
                for x, y in data:
                    trainer.step(x, y)
            """,
            at=(10, 37, 10, 41),
        ),
        Invalid(
            """
            def train(model, loader, criterion, optimizer, epochs):
                losses = []
                for epoch in range(epochs):
                    for x, y in loader:
                        optimizer.zero_grad()
                        loss = criterion(model(x), y)
                        loss.backward()
                        optimizer.step()
                        losses.append(loss)
                return losses
            """,
            """
            def train(model, loader, criterion, optimizer, epochs):
                losses = []
                for epoch in range(epochs):
                    for x, y in loader:
                        optimizer.zero_grad()
                        loss = criterion(model(x), y)
                        loss.backward()
                        optimizer.step()
                        losses.append(loss.detach())
                return losses
            """,
            at=(9, 26, 9, 30),
        ),
        Invalid(
            """
            class Trainer:
                def __init__(self, model):
                    self.model = model
                    self.history = {"loss": []}

                def fit(self, loader, scaler, optimizer):
                    for x, y in loader:
                        loss = F.cross_entropy(self.model(x), y)
                        scaler.scale(loss / 4).backward()
                        scaler.step(optimizer)
                        self.history["loss"].append(loss)
            """,
            """
            class Trainer:
                def __init__(self, model):
                    self.model = model
                    self.history = {"loss": []}

                def fit(self, loader, scaler, optimizer):
                    for x, y in loader:
                        loss = F.cross_entropy(self.model(x), y)
                        scaler.scale(loss / 4).backward()
                        scaler.step(optimizer)
                        self.history["loss"].append(loss.detach())
            """,
        ),
        Invalid(
            """
            model = nn.Linear(4, 1)
            losses = []
            for x in torch.randn(100, 4):
                losses.append(model(x).pow(2).mean() + 1)
            print(sum(l.item() for l in losses) / len(losses))
            """,
            """
            model = nn.Linear(4, 1)
            losses = []
            for x in torch.randn(100, 4):
                losses.append((model(x).pow(2).mean() + 1).detach())
            print(sum(l.item() for l in losses) / len(losses))
            """,
        ),
        Invalid(
            """
            def train(model: nn.Linear, loader, optimizer):
                mse_losses = []
                for x, y in loader:
                    mse = F.mse_loss(model(x), y)
                    loss = mse + 0.1 * model.weight.abs().sum()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    mse_losses += [mse]
                return mse_losses
            """,
            """
            def train(model: nn.Linear, loader, optimizer):
                mse_losses = []
                for x, y in loader:
                    mse = F.mse_loss(model(x), y)
                    loss = mse + 0.1 * model.weight.abs().sum()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    mse_losses += [mse.detach()]
                return mse_losses
            """,
        ),
    ]

    def visit_append(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="append"), args=[item], keywords=[]):
                yield from self._check(owner, item, ctx)
            case _:
                return

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        """``history.add(loss)``, where the method appends what it is given to a list of its object."""
        for handed in handed_over(node, ctx):
            kept, step = f"self.{handed.attribute}", step_around(node, ctx)
            if not handed.listed or step is None or graph_of(handed.argument, step, ctx) != "freed":
                continue
            if is_differentiated(kept, handed.statement, ctx) or ctx.grad_enabled(handed.statement) is False:
                continue
            text = ctx.source_of(handed.argument)
            message = f"{text} still carries its graph: {kept} keeps its nodes in memory, step after step"
            related = [("it is appended here", handed.statement)]
            yield ctx.finding(self, handed.argument, message, related=related, fixes=[detached(handed.argument, ctx)])

    def visit_extend(self, node: ast.AugAssign, ctx: Context) -> Iterator[Finding]:
        match node:
            case ast.AugAssign(target=ast.Name() | ast.Attribute() as owner, op=ast.Add(), value=ast.List(elts=[item])):
                yield from self._check(owner, item, ctx)
            case _:
                return

    def _check(self, owner: ast.expr, item: ast.expr, ctx: Context) -> Iterator[Finding]:
        name = _name_of(owner)
        step = repeated_around(item, name, ctx) if name is not None else None
        if step is None or name is None or isinstance(item, ast.Starred):
            return
        if isinstance(item, (ast.Dict, ast.Tuple)):
            for part in item.values if isinstance(item, ast.Dict) else item.elts:
                yield from self._check(owner, part, ctx)
            return
        graph = graph_of(item, step, ctx)
        if graph is None or not _is_list(owner, name, ctx) or _is_renewed(name, step):
            return
        if is_differentiated(name, item, ctx) or (graph == "whole" and not is_only_read(name, item, ctx)):
            return
        what = ctx.source_of(item) if dotted_text(item) else "the appended tensor"
        kept = (
            "backward() has freed its saved tensors, but every step leaves its graph's nodes in memory"
            if graph == "freed"
            else "no backward frees it, so everything saved for backward stays in memory, step after step"
        )
        yield ctx.finding(self, item, f"{what} still carries its graph: {kept}", fixes=[detached(item, ctx)])


def _name_of(owner: ast.expr) -> str | None:
    """Return the name of a list, or of the dict that holds it."""
    return dotted_text(owner.value if isinstance(owner, ast.Subscript) else owner)


def _is_renewed(name: str, loop: Loop | FunctionNode) -> bool:
    """Say whether each iteration begins a new list."""
    return any(bound == name and not isinstance(place, ast.AugAssign) for bound, place in assigned_in(loop))


def _is_list(owner: ast.expr, name: str, ctx: Context) -> bool:
    """Say whether a name is bound to lists or dicts of lists only, as far as the file shows."""
    value = ctx.value(owner)
    if value is not UNKNOWN:
        return isinstance(value, Sequence) and value.kind == "list"
    bound = [
        node.value
        for node in walk(home_of(name, owner, ctx))
        if isinstance(node, ast.Assign) and name in map(dotted_text, node.targets)
    ]
    return bool(bound) and all(_makes_lists(value, ctx) for value in bound)


def _makes_lists(value: ast.expr, ctx: Context) -> bool:
    match value:
        case ast.List() | ast.ListComp():
            return True
        case ast.Dict(values=values):
            return any(_makes_lists(v, ctx) for v in values)
        case ast.Call(func=ast.Name(id="list")):
            return True
        case ast.Call(args=[ast.Name(id="list")]):
            return ctx.name(value.func) == "collections.defaultdict"
        case _:
            return False
