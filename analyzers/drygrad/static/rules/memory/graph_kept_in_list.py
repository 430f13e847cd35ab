"""Rule DG501: a list that keeps the graph of every step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import UNKNOWN, Mapped, Sequence
from drygrad.static.rules.memory.graphs import repeated_around
from drygrad.static.rules.memory.keeping import Keeping, keepings, root_of
from drygrad.static.rules.memory.reading import home_of
from drygrad.static.rules.memory.telling import told, told_of_handed
from drygrad.static.syntax import class_around
from drygrad.static.tree import walk


class GraphKeptInList(Rule):
    """
    ## What it does
    Finds tensors that are kept step after step with their graph, in a list, a deque or under the keys of a dict,
    although no backward needs them again.

    ## Why is this bad?
    The container keeps the graph of every step alive, so memory grows from step to step. How fast depends on backward:

    - If none has run, each graph holds everything saved for it: all activations of every step stay on the device until
      it runs out of memory.
    - If `backward()` has run, the saved tensors are freed, but the graph's nodes stay in host memory: about 1 kB per
      operation and step (24 kB per step for ten linear layers with ReLU, measured with torch 2.13). This is an `info`.

    A list that is summed or stacked and backpropagated later (REINFORCE, several losses) is intended and not reported.

    ## Example
    ```python
    losses = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss)
    print(sum(l.item() for l in losses))
    ```
    Use instead:
    ```python
    losses = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    print(sum(l.item() for l in losses))
    ```
    `loss.item()` keeps a Python number instead, and waits for the device each time.

    ## Fix safety
    Safe: the list holds the same values, and no backward runs through it.
    """

    code, name, since = "DG501", "graph-kept-in-list", "0.1"
    severity = "warning"
    VALID = [
        Valid(  # what is handed over is detached where it is kept
            """
            class Experience:
                def __init__(self):
                    self.states = []

                def store(self, state):
                    self.states.append(tuple(s.detach() for s in state))

            cell, experience = nn.LSTMCell(4, 8), Experience()
            state = (torch.zeros(2, 8), torch.zeros(2, 8))
            for x in torch.randn(100, 2, 4):
                state = cell(x, tuple(s.detach() for s in state))
                experience.store(state)
            print(len(experience.states), experience.states[-1][0].norm().item())
            """
        ),
        Valid(
            """
            def hessian(y: torch.Tensor, x):
                rows = []
                for i in range(y.shape[-1]):
                    row = torch.autograd.grad(y[i], x, create_graph=True)[0]
                    rows.append(row)
                return torch.stack(rows)

            def told(y, x):
                return hessian(y, x).detach()
            """
        ),
        Valid(
            """
            def returns(values, rewards, masks):
                gae, total = 0, []
                for step in reversed(range(len(rewards))):
                    delta = rewards[step] + 0.99 * values[step + 1] * masks[step] - values[step]
                    gae = delta + 0.95 * masks[step] * gae
                    total.insert(0, gae + values[step])
                return total

            def rollout(critic: nn.Linear, states, rewards, masks):
                values = [critic(state) for state in states]
                targets = torch.cat(returns(values, rewards, masks)).detach()
                (targets - torch.cat(values)).pow(2).mean().backward()
            """
        ),
        Valid(
            """
            def masters(model: nn.Linear):
                copies = []
                for p in model.parameters():
                    copy = nn.Parameter(p.data.float()).to(p.device)
                    copies.append(copy)
                print(len(copies))
            """
        ),
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
            def check_sizes(dims, net: nn.Linear):
                outputs = [net(torch.rand(4, 8)).tanh() for _ in range(dims)]
                squares = [output.pow(2) for output in outputs]
                assert (sum(outputs).pow(2) == torch.cat(squares).sum()).all()
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
        Invalid(  # a record that another function made
            """
            def step(model, x, y):
                error = model(x) - y
                return {"loss": error.abs().mean(), "size": len(x)}

            model, logs = nn.Linear(4, 1), []
            optimizer = torch.optim.Adam(model.parameters())
            for x, y in loader:
                log = step(model, x, y)
                optimizer.zero_grad()
                log["loss"].backward()
                optimizer.step()
                logs.append(log)
            """,
            at=(12, 16, 12, 19),
            severity="info",
        ),
        Invalid(
            """
            model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
            cache = {}
            for i, (x, y) in enumerate(loader):
                cache[i] = F.mse_loss(model(x), y) * 2
            print(len(cache), sum(value.item() for value in cache.values()))
            """,
            """
            model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
            cache = {}
            for i, (x, y) in enumerate(loader):
                cache[i] = (F.mse_loss(model(x), y) * 2).detach()
            print(len(cache), sum(value.item() for value in cache.values()))
            """,
            at=(4, 15, 4, 42),
        ),
        Invalid(
            """
            def test_outputs(layer: nn.Linear):
                outputs = [layer(torch.rand(2, 4)).pow(2) for _ in range(3)]
                assert torch.cat(outputs).shape == (6, 4)
            """,
            """
            def test_outputs(layer: nn.Linear):
                outputs = [layer(torch.rand(2, 4)).pow(2).detach() for _ in range(3)]
                assert torch.cat(outputs).shape == (6, 4)
            """,
            severity="hint",
        ),
        Invalid(
            """
            HISTORY = []

            def note(value):
                HISTORY.append((len(HISTORY), value))

            def errors(model: nn.Linear, loader):
                for x, y in loader:
                    note((model(x) - y).abs().sum())
                print(len(HISTORY))

            errors(nn.Linear(4, 2), loader)
            """,
            """
            HISTORY = []

            def note(value):
                HISTORY.append((len(HISTORY), value))

            def errors(model: nn.Linear, loader):
                for x, y in loader:
                    note((model(x) - y).abs().sum().detach())
                print(len(HISTORY))

            errors(nn.Linear(4, 2), loader)
            """,
            at=(8, 13, 8, 39),
        ),
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
            severity="info",
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
            severity="info",
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
            severity="info",
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
            severity="info",
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
            severity="info",
        ),
    ]

    def visit_file(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        yield from told_of_handed(self, ctx, listed=True)

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        yield from self._check(node, ctx)

    def visit_assignment(self, node: ast.Assign | ast.AugAssign, ctx: Context) -> Iterator[Finding]:
        yield from self._check(node, ctx)

    def visit_comprehension(self, node: ast.ListComp, ctx: Context) -> Iterator[Finding]:
        match ctx.parent(node):
            case ast.Assign(targets=[ast.Name(id=name) as owner]):
                yield from told(
                    self, Keeping(owner, name, node.elt, False), node, ctx, "the tensors in the list carry graphs"
                )
            case _:
                return

    def _check(self, node: ast.AST, ctx: Context) -> Iterator[Finding]:
        for keeping in keepings(node, ctx):
            step = repeated_around(node, keeping.name, ctx)
            if keeping.linked or step is None or not _is_container(keeping, ctx):
                continue
            what = ctx.source_of(keeping.kept) if dotted_text(keeping.kept) else "the tensor that is kept"
            yield from told(self, keeping, step, ctx, f"{what} still carries its graph")


def _is_container(keeping: Keeping, ctx: Context) -> bool:
    """Say whether a name is bound only to lists and dicts that grow and grow, as far as the file shows."""
    value = ctx.value(root_of(keeping.owner))
    if isinstance(value, Sequence):
        return value.kind == "list"
    if value is not UNKNOWN and not isinstance(value, Mapped):
        return False
    home = home_of(keeping.name, keeping.owner, ctx)
    cls = class_around(keeping.owner, ctx) if keeping.name.startswith("self.") else None
    of_class = [node for node in cls.body if isinstance(node, ast.Assign)] if cls is not None else []
    bound = [
        node.value
        for node in walk(home)
        if isinstance(node, ast.Assign)
        if keeping.name in [f"self.{text}" if node in of_class else text for text in map(dotted_text, node.targets)]
        if not any(part is keeping.kept for part in walk(node.value))
    ]
    return bool(bound) and all(_makes_container(value, ctx) for value in bound)


def _makes_container(value: ast.expr, ctx: Context) -> bool:
    match value:
        case ast.List() | ast.ListComp() | ast.Dict() | ast.DictComp():
            return True
        case ast.BinOp(left=ast.List(), op=ast.Mult()):
            return True
        case ast.Call(func=ast.Name(id="list" | "dict")):
            return True
        case ast.Call(args=args, keywords=keywords) if ctx.name(value.func) == "collections.deque":
            bounds = [*args[1:2], *(k.value for k in keywords if k.arg == "maxlen")]
            lengths = [bound.value if isinstance(bound, ast.Constant) else 0 for bound in bounds]
            return all(isinstance(length, int) and length >= _LONG for length in lengths)
        case ast.Call(keywords=[]):
            return ctx.name(value.func) in _CONTAINERS
        case _:
            return False


_CONTAINERS = frozenset({"collections.defaultdict", "collections.OrderedDict"})
_LONG = 1000
"""A deque of fewer items is a window over the last steps, whose memory is small; a longer one is a replay buffer."""
