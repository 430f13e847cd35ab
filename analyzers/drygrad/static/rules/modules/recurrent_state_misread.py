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
    Finds `out[:, -1]` of the output of a bidirectional LSTM, GRU or RNN, and `h.view(batch, -1)` of the last states of
    one with several layers or directions.

    ## Why is this bad?
    At the last time step the backward direction has read one element only: half of the features know nothing of the
    sequence. Its final state stands at the first step. And the states have the shape (layers * directions, batch,
    hidden): to count that memory as (batch, features) gives each sample parts of the states of others; the axes have to
    be exchanged first. Both run without an error.

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
            name = dotted_text(read.value) if isinstance(read, ast.Subscript) else _viewed(read, ctx)
            if name is None or name not in (output, state) or rebound_between(name, node, read, scope):
                continue
            if isinstance(read, ast.Subscript) and name == output and _is_last_step(read, call, ctx):
                message = "the last step of a bidirectional layer: its backward direction has read one element here"
                fix = _joined_states(read, state, ctx)
                yield ctx.finding(self, read, message, related=[("the layer runs here", node.value)], fixes=[fix])
            elif isinstance(read, ast.Call) and name == state and _has_several(call):
                message = f"{name} is (layers * directions, batch, hidden): this view mixes the states of the samples"
                yield ctx.finding(self, read, message, fixes=[_exchanged(read, ctx)])


def _viewed(node: ast.AST, ctx: Context) -> str | None:
    """Return the name of what a call lays out as (batch, features)."""
    match node:
        case ast.Call(func=ast.Attribute(value=viewed, attr="view" | "reshape"), args=[first, last], keywords=[]):
            sizes = (first, last)
        case _:
            return None
    if ctx.value(sizes[0]) == Constant(-1) and isinstance(sizes[1], ast.BinOp):
        return dotted_text(viewed)
    return dotted_text(viewed) if ctx.value(sizes[1]) == Constant(-1) and _is_batch(sizes[0]) else None


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
    return ctx.fix("Take the last states of both directions", ctx.replace(read, text))


def _exchanged(read: ast.Call, ctx: Context) -> Fix | None:
    if not isinstance(read.func, ast.Attribute):
        return None
    sizes = ", ".join(ctx.source_of(size) for size in read.args)
    text = f"{ctx.source_of(read.func.value)}.transpose(0, 1).reshape({sizes})"
    return ctx.fix("Put the batch first", ctx.replace(read, text))
