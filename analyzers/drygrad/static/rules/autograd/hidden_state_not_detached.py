"""Rule DG108: a recurrent state carried from one backward to the next."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Edit, Finding, Fix, Invalid, Rule, Severity, Valid
from drygrad.static.context import Context, Loop
from drygrad.static.facts.values import UNKNOWN, Sequence, Tensor, Value
from drygrad.static.rules.autograd.graph import recorded
from drygrad.static.rules.autograd.kept_between_calls import carried_graph, kept_graph
from drygrad.static.syntax import nodes_within

_RECURRENT = frozenset({"lstm", "gru", "rnn", "lstm_cell", "gru_cell", "rnn_cell"})
_STATE = re.compile(r"hidden|^h$|^hx$|^h_?[nt]$|^hc$|memory|^mems$|(^|_)state$", re.IGNORECASE)
_NETWORK = re.compile(r"(^|\.|_)(model|net|rnn|lstm|gru|cell|decoder|encoder)\d*$", re.IGNORECASE)


class HiddenStateNotDetached(Rule):
    """
    ## What it does
    Finds a hidden state that a training loop passes from one iteration to the next without detaching it, with a
    backward in each iteration. The same on a module: an attribute that `forward` computes once and keeps with its graph
    for later calls, and a state that a method reads from an attribute, passes to a network and stores again, as in
    streaming inference.

    ## Why is this bad?
    The second `backward()` goes through the graph of the first iteration, which has been freed: `Trying to backward
    through the graph a second time`. `retain_graph=True` does not help: after `optimizer.step()` the error becomes
    `modified by an inplace operation`, and every iteration backpropagates through all earlier ones. Without a backward,
    each call keeps the graphs of all earlier calls, and memory grows without bound.

    A network whose code is not in the file is recognized by its name (`model`, `rnn` ...) and that of the state
    (`hidden`, `state` ...); it may detach the state itself.

    ## Example
    ```python
    for x, y in loader:
        out, hidden = rnn(x, hidden)
        criterion(out, y).backward()
    ```
    Use instead:
    ```python
    for x, y in loader:
        hidden = hidden.detach()
        out, hidden = rnn(x, hidden)
        criterion(out, y).backward()
    ```

    ## Fix safety
    Unsafe: gradients no longer flow from one iteration into earlier ones.
    """

    code, name, since = "DG108", "hidden-state-not-detached", "0.1"
    severity = "error"
    VALID = [
        Valid(
            "rnn = nn.GRU(4, 4)\nh = torch.zeros(1, 2, 4)\nfor _ in range(3):\n    h = h.detach()\n"
            "    out, h = rnn(torch.rand(5, 2, 4), h)\n    out.sum().backward()"
        ),
        Valid(
            "rnn = nn.GRU(4, 4)\nfor _ in range(3):\n    h = torch.zeros(1, 2, 4)\n    for _ in range(5):\n"
            "        out, h = rnn(torch.rand(5, 2, 4), h)\n    out.sum().backward()"
        ),
        Valid(
            "rnn = nn.GRU(4, 4)\nh = torch.zeros(1, 2, 4)\nfor _ in range(3):\n"
            "    out, h = rnn(torch.rand(5, 2, 4), h)\nout.sum().backward()"
        ),
        Valid(
            "def train(model, loader, hidden):\n    for x, y in loader:\n        hidden = repackage_hidden(hidden)\n"
            "        out, hidden = model(x, hidden)\n        loss_fn(out, y).backward()"
        ),
        Valid(
            "def train(model, loader, hidden):\n    for x, y in loader:\n        out, hidden = model(x, hidden)\n"
            "        loss_fn(out, y).backward()\n        hidden.detach_()"
        ),
        Valid(
            "def play(env, state, agent):\n    for _ in range(3):\n        state, gain = env.step(0, state)\n"
            "        agent.loss(gain).backward()"
        ),
        Valid(
            """
            class Monitor:
                def __init__(self):
                    self.net, self.state = nn.GRU(4, 8), None

                @torch.no_grad()
                def process(self, chunk: torch.Tensor):
                    out, self.state = self.net(chunk, self.state)
                    return out.mean().item()

            class Agent:
                def __init__(self):
                    self.net, self.state = nn.GRU(4, 8), None

                def reset(self):
                    self.state = None

                def act(self, x: torch.Tensor):
                    out, self.state = self.net(x, self.state)
                    return out.argmax()

            monitor, agent = Monitor(), Agent()
            for chunk in torch.randn(9, 5, 2, 4):
                monitor.process(chunk)
                agent.act(chunk)
            """
        ),
        Valid(
            """
            class Monitor:
                def __init__(self):
                    self.net, self.state = nn.GRU(4, 8), None

                def process(self, chunk: torch.Tensor):
                    out, self.state = self.net(chunk, self.state)
                    return out.mean().item()

            monitor = Monitor()
            for chunk in torch.randn(9, 5, 2, 4):
                with torch.no_grad():
                    monitor.process(chunk)
            """
        ),
        Valid(
            """
            class Table(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.mlp, self.table = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 4)), None
                    self.register_buffer("grid", torch.rand(9, 2))
                    self.net = nn.Linear(2, 4)

                def forward(self, x):
                    if self.table is None:
                        self.table = self.net(self.grid).detach()
                    return x + self.table
            """
        ),
        Valid(
            """
            class Table(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.mlp, self.table = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 4)), None
                    self.register_buffer("grid", torch.rand(9, 2))
                    self.net = nn.Linear(2, 4)

                def forward(self, x):
                    if self.table is None:
                        self.table = self.grid.cumsum(0)
                    return x + self.table
            """
        ),
        Valid(
            """
            class Table(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.mlp, self.table = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 4)), None
                    self.register_buffer("grid", torch.rand(9, 2))
                    self.net = nn.Linear(2, 4)

                @torch.no_grad()
                def forward(self, x):
                    if self.table is None:
                        self.table = self.net(self.grid)
                    return x + self.table
            """
        ),
        Valid(
            """
            class Table(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.mlp, self.table = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 4)), None
                    self.register_buffer("grid", torch.rand(9, 2))
                    self.net = nn.Linear(2, 4)

                def forward(self, x):
                    if self.table is None:
                        self.table = self.net(self.grid)
                    return x + self.table

                def train(self, mode=True):
                    self.table = None
                    return super().train(mode)
            """
        ),
        Valid(
            """
            class Table(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.mlp, self.table = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 4)), None
                    self.register_buffer("grid", torch.rand(9, 2))
                    self.net = nn.Linear(2, 4)

                def forward(self, x):
                    self.table = self.net(self.grid)
                    return x + self.table
            """
        ),
    ]
    INVALID = [
        Invalid(
            "rnn = nn.GRU(4, 4)\nh = torch.zeros(1, 2, 4)\nfor _ in range(3):\n"
            "    out, h = rnn(torch.rand(5, 2, 4), h)\n    out.sum().backward()",
            "rnn = nn.GRU(4, 4)\nh = torch.zeros(1, 2, 4)\nfor _ in range(3):\n    h = h.detach()\n"
            "    out, h = rnn(torch.rand(5, 2, 4), h)\n    out.sum().backward()",
            at=(4, 38, 4, 39),
        ),
        Invalid(
            """
            lstm = nn.LSTM(4, 8)
            optimizer = torch.optim.SGD(lstm.parameters(), lr=0.1)
            hidden = (torch.zeros(1, 2, 8), torch.zeros(1, 2, 8))
            for epoch in range(3):
                for step in range(10):
                    optimizer.zero_grad()
                    out, hidden = lstm(torch.rand(5, 2, 4), hidden)
                    loss = out.square().mean()
                    loss.backward(retain_graph=True)
                    optimizer.step()
            """,
            """
            lstm = nn.LSTM(4, 8)
            optimizer = torch.optim.SGD(lstm.parameters(), lr=0.1)
            hidden = (torch.zeros(1, 2, 8), torch.zeros(1, 2, 8))
            for epoch in range(3):
                for step in range(10):
                    hidden = tuple(state.detach() for state in hidden)
                    optimizer.zero_grad()
                    out, hidden = lstm(torch.rand(5, 2, 4), hidden)
                    loss = out.square().mean()
                    loss.backward(retain_graph=True)
                    optimizer.step()
            """,
        ),
        Invalid(
            "cell = nn.RNNCell(4, 4)\nh = torch.zeros(2, 4)\nfor _ in range(3):\n    for _ in range(5):\n"
            "        h = cell(torch.rand(2, 4), h)\n    h.sum().backward()",
            "cell = nn.RNNCell(4, 4)\nh = torch.zeros(2, 4)\nfor _ in range(3):\n    h = h.detach()\n"
            "    for _ in range(5):\n        h = cell(torch.rand(2, 4), h)\n    h.sum().backward()",
        ),
        Invalid(
            "def train(model, loader, optimizer, criterion):\n    hidden = model.init_hidden(20)\n"
            "    for x, y in loader:\n        optimizer.zero_grad()\n        out, hidden = model(x, hidden)\n"
            "        loss = criterion(out, y)\n        loss.backward()\n        optimizer.step()",
            severity="warning",
        ),
        Invalid(
            """
            class Table(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.mlp, self.table = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 4)), None
                    self.register_buffer("grid", torch.rand(9, 2))
                    self.net = nn.Linear(2, 4)

                def forward(self, x):
                    if self.table is None:
                        self.table = self.net(self.grid)
                    return x + self.table
            """,
            severity="warning",
        ),
        Invalid(
            """
            class Monitor:
                def __init__(self):
                    self.net, self.state = nn.GRU(4, 8), None

                def process(self, chunk: torch.Tensor):
                    out, self.state = self.net(chunk, self.state)
                    return out.mean().item()

            monitor = Monitor()
            for chunk in torch.randn(9, 5, 2, 4):
                monitor.process(chunk)
            """,
            at=(6, 8, 6, 53),
            severity="warning",
        ),
        Invalid(
            """
            class Labels(nn.Module):
                def __init__(self, tokens):
                    super().__init__()
                    self.tokens, self.words, self.head = tokens, nn.Embedding(50, 8), nn.Linear(8, 8)

                def classes(self):
                    if not hasattr(self, "bank"):
                        self.bank = F.normalize(self.words(self.tokens).mean(1), dim=-1)
                    return self.bank

                def forward(self, x):
                    return self.head(x) @ self.classes().T
            """,
            severity="warning",
        ),
    ]

    def visit_assign(self, node: ast.Assign, ctx: Context) -> Iterator[Finding]:
        kept = kept_graph(node, ctx)
        if kept is not None:
            yield ctx.finding(
                self,
                node,
                f"`{kept}` is computed once; its graph is freed by the first backward(), and the second one needs it "
                "again",
                severity="warning",
            )
        carried = carried_graph(node, ctx)
        if carried is not None:
            yield ctx.finding(
                self,
                node,
                f"`{carried}` carries its graph from call to call; memory grows with every call, and a second "
                "backward() fails",
                severity="warning",
            )
        if not isinstance(node.value, ast.Call) or recorded(ctx, node) is False:
            return
        for state in _carried(node, node.value):
            loop = _training_loop(node, ctx)
            severity = _severity(node.value, state, ctx)
            if loop is None or severity is None or not _is_never_detached(state.id, node, loop, ctx):
                continue
            yield ctx.finding(
                self,
                state,
                f"`{state.id}` carries its graph into the next iteration of the loop on line {loop.lineno}; the "
                "second backward() goes through a graph that is already freed",
                severity=severity,
                related=[("nothing in this loop detaches the state carried between iterations", loop.target)]
                if isinstance(loop, (ast.For, ast.AsyncFor))
                else [],
                fixes=[_fix(state, loop, ctx)],
            )


def _carried(node: ast.Assign, call: ast.Call) -> Iterator[ast.Name]:
    """Yield the arguments of a call that its result is bound to again."""
    target = node.targets[0]
    bound = {e.id for e in (target.elts if isinstance(target, ast.Tuple) else [target]) if isinstance(e, ast.Name)}
    for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
        if isinstance(argument, ast.Name) and argument.id in bound:
            yield argument


def _training_loop(node: ast.Assign, ctx: Context) -> Loop | None:
    """Return the innermost loop around a statement that runs a backward in its passes."""
    for loop in ctx.loops(node):
        within = [n for statement in loop.body for n in (statement, *nodes_within(statement))]
        if any(isinstance(n, ast.Attribute) and n.attr == "backward" and ctx.loops(n)[:1] == [loop] for n in within):
            return loop
    return None


def _severity(call: ast.Call, state: ast.Name, ctx: Context) -> Severity | None:
    """Return how sure it is that the call returns the state with its graph."""
    known = ctx.call(call)
    if known is not None:
        return "error" if known.operation in _RECURRENT else None
    if ctx.value(call.func) is not UNKNOWN and ctx.name(call.func) is not None:
        return None
    named = _STATE.search(state.id) and _NETWORK.search(ctx.text(call.func) or "")
    return "warning" if named else None


def _is_never_detached(name: str, node: ast.Assign, loop: Loop, ctx: Context) -> bool:
    """Say whether a loop gives the name nothing but what the recurrent call returns."""
    for other in (n for statement in loop.body for n in (statement, *nodes_within(statement))):
        if isinstance(other, ast.Name) and other.id == name:
            if isinstance(other.ctx, ast.Store) and ctx.statement(other) is not node:
                return False
            if _is_detaching(other, ctx):
                return False
    return True


def _is_detaching(name: ast.Name, ctx: Context) -> bool:
    """Say whether a statement that reads the name may detach it in place: for a loop over it, in its body."""
    text = ast.unparse(ctx.statement(name))
    return "detach" in text or ".data" in text


def _fix(state: ast.Name, loop: Loop, ctx: Context) -> Fix | None:
    detached = _detached(state.id, ctx.value(state))
    if detached is None or loop.body[0].lineno == loop.lineno:
        return None
    edit: Edit = ctx.insert_statement(loop.body[0], f"{state.id} = {detached}")
    return ctx.fix("Detach the state at the start of each iteration", edit)


def _detached(name: str, value: Value) -> str | None:
    match value:
        case Tensor():
            return f"{name}.detach()"
        case Sequence(kind="tuple"):
            return f"tuple(state.detach() for state in {name})"
        case _:
            return None
