"""Rule DG758: the last step of a bidirectional layer, or its states laid out by a view."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Constant, TorchCall
from drygrad.static.rules.modules.recurrent import RECURRENT, result_names
from drygrad.static.syntax import body_nodes, rebound_between, scope_of

_BATCH = re.compile(r"(^|_)(batch|batch_size|bs|bsz|b|n|B|N)$")


class RecurrentStateMisread(Rule):
    """
    ## What it does
    Finds `out[:, -1]` on the output of a bidirectional LSTM, GRU or RNN, and `h.view(batch, -1)` or `h[-2:].reshape(-1,
    2 * hidden)` on the final states of one with several layers or directions.

    ## Why is this bad?
    At the last time step the backward direction has read only one element: half of the features know nothing about the
    sequence. Its final state is at the first step. The states have shape (layers * directions, batch, hidden): a `view`
    as (batch, features) mixes the states of different samples; transpose first. Both run without an error.

    ## Example
    ```python
    lstm = nn.LSTM(8, 16, batch_first=True, bidirectional=True)
    out, (h, c) = lstm(x)
    features = out[:, -1]
    ```
    Use instead:
    ```python
    lstm = nn.LSTM(8, 16, batch_first=True, bidirectional=True)
    out, (h, c) = lstm(x)
    features = torch.cat([h[-2], h[-1]], dim=1)
    ```

    ## Fix safety
    Unsafe: it changes what the model computes.
    """

    code, name, since = "DG758", "recurrent-state-misread", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            "rnn = nn.LSTM(8, 16, batch_first=True)\ndef f(x):\n    out, (h, c) = rnn(x)\n"
            "    return out[:, -1], h.view(x.size(0), -1)"
        ),
        Valid(
            "rnn = nn.LSTM(8, 16, batch_first=True, bidirectional=True)\ndef f(x):\n    out, (h, c) = rnn(x)\n"
            "    return out[:, -1, :16], out[:, 0, 16:], torch.cat([h[-2], h[-1]], 1), h.transpose(0, 1).flatten(1)"
        ),
        Valid(
            "rnn = nn.GRU(8, 16, 2, bidirectional=True)\ndef f(x):\n    out, h = rnn(x)\n"
            "    return h.view(2, 2, x.size(1), 16)[-1], h.permute(1, 0, 2).reshape(x.size(1), -1), h.view(4, -1)"
        ),
        Valid(
            "def f(x, width):\n    rnn = nn.GRU(8, width // 2, 2, bidirectional=True)\n    out, h = rnn(x)\n"
            "    out, pair = nn.LSTM(8, 16, 2)(x)\n    print(pair.view(x.size(1), -1))\n"
            "    return h.view(-1, width // 2), h[-1:].view(x.size(1), -1), h[-2:].reshape(2, -1)"
        ),
    ]
    INVALID = [
        Invalid(
            """
            class Sentiment(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.lstm = nn.LSTM(16, 32, batch_first=True, bidirectional=True)
                    self.fc = nn.Linear(64, 2)

                def forward(self, x):
                    out, (h, c) = self.lstm(x)
                    return self.fc(out[:, -1, :])
            """,
            """
            class Sentiment(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.lstm = nn.LSTM(16, 32, batch_first=True, bidirectional=True)
                    self.fc = nn.Linear(64, 2)

                def forward(self, x):
                    out, (h, c) = self.lstm(x)
                    return self.fc(torch.cat([h[-2], h[-1]], dim=1))
            """,
            at=(9, 23, 9, 36),
        ),
        Invalid(
            "def f(x):\n    rnn = nn.GRU(8, 16, bidirectional=True)\n    out, _ = rnn(x)\n    return out[-1]",
            at=(4, 11, 4, 18),
        ),
        Invalid(
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.gru = nn.GRU(8, 16, num_layers=2, batch_first=True)

                def forward(self, x):
                    batch = x.size(0)
                    _, state = self.gru(x)
                    return state.view(batch, -1)
            """,
            """
            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.gru = nn.GRU(8, 16, num_layers=2, batch_first=True)

                def forward(self, x):
                    batch = x.size(0)
                    _, state = self.gru(x)
                    return state.transpose(0, 1).reshape(batch, -1)
            """,
        ),
        Invalid(
            "def f(x, h):\n    rnn = nn.LSTM(8, h, bidirectional=True, batch_first=True)\n    out, state = rnn(x)\n"
            "    return state[0].contiguous().view(x.size(0), h * 2)",
            "def f(x, h):\n    rnn = nn.LSTM(8, h, bidirectional=True, batch_first=True)\n    out, state = rnn(x)\n"
            "    return state[0].contiguous().transpose(0, 1).reshape(x.size(0), h * 2)",
            at=(4, 11, 4, 55),
        ),
        Invalid(
            """
            class Encoder(nn.Module):
                def __init__(self, hidden, layers=2):
                    super().__init__()
                    self.width = 2 * hidden
                    self.lstm = nn.LSTM(8, hidden, num_layers=layers, bidirectional=True)

                def forward(self, x):
                    _, (h, _) = self.lstm(x)
                    return h[-2:].reshape(-1, self.width)
            """,
            """
            class Encoder(nn.Module):
                def __init__(self, hidden, layers=2):
                    super().__init__()
                    self.width = 2 * hidden
                    self.lstm = nn.LSTM(8, hidden, num_layers=layers, bidirectional=True)

                def forward(self, x):
                    _, (h, _) = self.lstm(x)
                    return h[-2:].transpose(0, 1).reshape(-1, self.width)
            """,
        ),
    ]

    def visit_assign(self, node: ast.Assign, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node.value)
        if call is None or call.operation not in RECURRENT or call.module is None or len(node.targets) != 1:
            return
        output, state = result_names(node.targets[0])
        scope = scope_of(node, ctx)
        for read in body_nodes(scope):
            if getattr(read, "lineno", 0) <= node.lineno:
                continue
            if isinstance(read, ast.Subscript):
                is_last = dotted_text(read.value) == output and _is_last_step(read, call, ctx)
                if output is None or not is_last or rebound_between(output, node, read, scope):
                    continue
                message = "at the last step, the backward direction of the layer has read only one element"
                fix = _joined_states(read, state, ctx)
                yield ctx.finding(self, read, message, related=[("the layer is called here", node.value)], fixes=[fix])
            elif isinstance(read, ast.Call) and state is not None and _has_several(call):
                name = _viewed(read, ctx)
                named = name in _names_of_states(node.targets[0], state, call)
                if not named or rebound_between(state, node, read, scope):
                    continue
                message = (
                    f"{name} is (layers * directions, batch, hidden); this view mixes the states of different samples"
                )
                yield ctx.finding(self, read, message, fixes=[_exchanged(read, ctx)])


def _names_of_states(target: ast.expr, state: str, call: TorchCall) -> tuple[str, ...]:
    """Return how the states are written: an LSTM's are a pair, that may have one name."""
    whole = isinstance(target, ast.Tuple) and not isinstance(target.elts[-1], ast.Tuple)
    return (f"{state}[0]", f"{state}[1]") if whole and call.operation == "lstm" else (state,)


def _viewed(node: ast.AST, ctx: Context) -> str | None:
    """Return the text of what a call lays out as (batch, features)."""
    match node:
        case ast.Call(func=ast.Attribute(value=viewed, attr="view" | "reshape"), args=[first, last], keywords=[]):
            name = ast.unparse(_whole(viewed))
        case _:
            return None
    if ctx.value(last) == Constant(-1):
        return name if _is_batch(first) else None
    counted = ctx.value(first) == Constant(-1) or _is_batch(first)
    return name if counted and _is_product(last, ctx) else None


def _whole(node: ast.expr) -> ast.expr:
    """Return what the states are taken of: those of both directions of the last layer of all."""
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr="contiguous")):
            return _whole(value)
        case ast.Subscript(value=whole, slice=ast.Slice(lower=ast.UnaryOp(op=ast.USub(), operand=two), upper=None)):
            return whole if isinstance(two, ast.Constant) and two.value == 2 else node
        case _:
            return node


def _is_product(size: ast.expr, ctx: Context) -> bool:
    """Say whether a size is a multiple of another, or an attribute that the class sets to one."""
    owner = next((a for a in ctx.ancestors(size) if isinstance(a, ast.ClassDef)), None)
    text = dotted_text(size)
    bound = (
        [s.value for s in ast.walk(owner) if isinstance(s, ast.Assign) and text in map(dotted_text, s.targets)]
        if owner is not None and text is not None and "." in text
        else [size]
    )
    return bool(bound) and all(isinstance(b, ast.BinOp) and isinstance(b.op, ast.Mult) for b in bound)


def _is_batch(size: ast.expr) -> bool:
    """Say whether a size is that of the batch: called so, or taken of a tensor."""
    match size:
        case ast.Call(func=ast.Attribute(attr="size"), args=[ast.Constant(value=0 | 1)]):
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Constant(value=0 | 1)):
            return True
        case ast.Call(func=ast.Name(id="len")):
            return True
        case _:
            return _BATCH.search(dotted_text(size) or "") is not None


def _is_last_step(read: ast.Subscript, call: TorchCall, ctx: Context) -> bool:
    """Say whether a subscript takes all features of the last time step of both directions."""
    if call.constant("bidirectional", False) is not True:
        return False
    first = call.constant("batch_first", False)
    match read.slice:
        case ast.Tuple(elts=[ast.Slice(lower=None, upper=None, step=None), step, *rest]):
            is_time = first is True
        case ast.Tuple(elts=[step, *rest]):
            is_time = first is False
        case step:
            rest, is_time = [], first is False
    whole = all(isinstance(part, ast.Slice) and part.lower is None and part.upper is None for part in rest)
    return is_time and whole and ctx.value(step) == Constant(-1)


def _has_several(call: TorchCall) -> bool:
    layers = call.constant("num_layers", 1)
    return call.constant("bidirectional", False) is True or (isinstance(layers, int) and layers > 1)


def _joined_states(read: ast.Subscript, state: str | None, ctx: Context) -> Fix | None:
    torch = ctx.imported_as("torch")
    if state is None or state.startswith("_") or torch is None:
        return None
    text = f"{torch}.cat([{state}[-2], {state}[-1]], dim=1)"
    return ctx.fix("Concatenate the final states of both directions", ctx.replace(read, text))


def _exchanged(read: ast.Call, ctx: Context) -> Fix | None:
    if not isinstance(read.func, ast.Attribute):
        return None
    sizes = ", ".join(ctx.source_of(size) for size in read.args)
    text = f"{ctx.source_of(read.func.value)}.transpose(0, 1).reshape({sizes})"
    return ctx.fix("Move the batch to the front first", ctx.replace(read, text))
