"""Rule DG615: a recurrent layer that is called once for each time step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Object
from drygrad.static.loops import is_guarded
from drygrad.static.syntax import bound_names, nodes_within
from drygrad.static.tree import walk

_LAYERS = frozenset({"torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN"})
_FORMS = frozenset({"unsqueeze", "view", "reshape", "contiguous", "to", "float"})


class RecurrentLayerStepped(Rule):
    """
    ## What it does
    Finds loops over time that call `nn.LSTM`, `nn.GRU` or `nn.RNN` on one step of a sequence that exists as a whole,
    and pass the state on unchanged.

    ## Why is this bad?
    These layers process a whole sequence in one call, with the same result and a single large matrix product for the
    inputs. Called step by step, each step launches its own kernels and adds its own nodes to the graph: a hundred LSTM
    steps took 3 to 11 times as long, forward and backward on one core (torch 2.13). A loop is only needed if a step's
    input depends on the previous output.

    ## Example
    ```python
    gru = nn.GRU(8, 16, batch_first=True)


    def encode(x: torch.Tensor, h):
        outputs = []
        for t in range(x.size(1)):
            y, h = gru(x[:, t : t + 1], h)
            outputs.append(y)
        return torch.cat(outputs, dim=1), h
    ```
    Use instead:
    ```python
    gru = nn.GRU(8, 16, batch_first=True)


    def encode(x: torch.Tensor, h):
        return gru(x, h)
    ```
    """

    code, name, since = "DG615", "recurrent-layer-stepped", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            class Decoder(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.gru = nn.GRU(4, 4, batch_first=True)
                    self.cell = nn.GRUCell(4, 4)

                def forward(self, x: torch.Tensor, h, teacher: bool):
                    y, outputs = x[:, :1], []
                    for t in range(x.size(1)):
                        y, h = self.gru(y, h)
                        outputs.append(y)
                    for t in range(x.size(1)):
                        step = x[:, t : t + 1] if teacher else y
                        y, h = self.gru(step, h)
                    for t in range(x.size(1)):
                        y, h = self.gru(x[:, t : t + 1], h)
                        h = h * (t < 3)
                    for t in range(x.size(1)):
                        y, h = self.gru(torch.cat([x[:, t : t + 1], y], dim=-1), h)
                    for t in range(x.size(1)):
                        y, h = self.gru(x[:, t : t + 1], h)
                        if y.sum() > 3:
                            break
                    for layer in range(3):
                        y, h = self.gru(x[layer], h)
                    output, h = self.gru(x, h)
                    return output, torch.cat(outputs), self.cell(x[:, 0])
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            class Encoder(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.lstm = nn.LSTM(4, 8, batch_first=True)

                def forward(self, x: torch.Tensor, h, c):
                    outputs = []
                    for t in range(x.size(1)):
                        out, (h, c) = self.lstm(x[:, t : t + 1], (h, c))
                        outputs.append(out)
                    return torch.cat(outputs, dim=1)
            """,
            at=(9, 26, 9, 60),
        ),
        Invalid(
            """
            gru = nn.GRU(4, 8)

            def encode(sequence, h):
                states = []
                for t in range(len(sequence)):
                    step = sequence[t].unsqueeze(0)
                    y, h = gru(step, h)
                    states.append(y)
                return torch.cat(states)
            """,
        ),
        Invalid(
            """
            rnn = nn.RNN(4, 8, batch_first=True)

            def encode(x: torch.Tensor, state):
                for step in x.split(1, dim=1):
                    y, state = rnn(step, state)
                return y
            """,
        ),
    ]

    def visit_loop(self, node: ast.For, ctx: Context) -> Iterator[Finding]:
        steps = _steps_of(node)
        if not steps or any(isinstance(inner, (ast.Break, ast.Continue, ast.Return)) for inner in nodes_within(node)):
            return
        for call in nodes_within(node):
            if not isinstance(call, ast.Call) or len(call.args) != 2 or call.keywords or ctx.loops(call)[:1] != [node]:
                continue
            layer = ctx.value(call.func)
            if not isinstance(layer, Object) or layer.type not in _LAYERS or is_guarded(call, node, ctx):
                continue
            if _hands_on(call, node, ctx) and _is_step(call.args[0], node, steps):
                name = ctx.source_of(call.func)
                message = f"{name} is called step by step; one call on the whole sequence gives the same result, faster"
                yield ctx.finding(self, call, message, related=[("the loop over the steps", node.target)])


def _steps_of(loop: ast.For) -> dict[str, bool]:
    """Return the names that a loop over time binds: whether each is a step itself, not the number of one."""
    match loop:
        case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=args)) if len(args) == 1:
            return {name: False} if not isinstance(args[0], ast.Constant) else {}
        case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Attribute(attr="split" | "unbind" | "chunk"))):
            return {name: True}
        case _:
            return {}


def _hands_on(call: ast.Call, loop: ast.For, ctx: Context) -> bool:
    """Say whether the state that a call takes is what it gave in the turn before, and nothing else binds it."""
    statement = ctx.statement(call)
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=[_, state])], value=value) if value is call:
            pass
        case _:
            return False
    if ast.unparse(state) != ast.unparse(call.args[1]):
        return False
    names = bound_names(state)
    return bool(names) and all(statement is s or not names & bound_names(s) for s in loop.body)


def _is_step(node: ast.expr, loop: ast.For, steps: dict[str, bool]) -> bool:
    """Say whether an expression is one step of a sequence that no turn of the loop changes."""
    bound = bound_names(loop)
    match node:
        case ast.Name(id=name) if name in bound and name not in steps:
            values = [s.value for s in loop.body if isinstance(s, ast.Assign) and name in bound_names(s)]
            return len(values) == 1 and _is_step(values[0], loop, steps)
        case ast.Name(id=name):
            return steps.get(name, False)
        case ast.Call(func=ast.Attribute(value=inner, attr=name), args=args) if name in _FORMS:
            return _is_step(inner, loop, steps) and not any(_names(a) & bound for a in args)
        case ast.Subscript(value=whole, slice=index):
            text = dotted_text(whole)
            used = _names(index)
            return (
                text is not None
                and text.partition(".")[0] not in bound
                and bool(used & set(steps))
                and used <= set(steps)
            )
        case _:
            return False


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in walk(node) if isinstance(n, ast.Name)}
