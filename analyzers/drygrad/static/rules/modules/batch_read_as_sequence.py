"""Rule DG752: a sequence layer without batch_first whose output is read as if the batch came first."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import with_keyword
from drygrad.static.facts.values import Constant, Object, Origin, Tensor, TorchCall
from drygrad.static.rules.loss.origins import RELAYOUTS
from drygrad.static.rules.modules.recurrent import RECURRENT
from drygrad.static.tree import walk

_TRANSFORMERS = frozenset({"transformer_encoder", "transformer_encoder_layer"})
_CONVOLUTIONS = frozenset({"conv1d", "conv_transpose1d"})
_KEEPS_AXES = frozenset(
    "relu gelu elu silu leaky_relu tanh sigmoid dropout batch_norm group_norm layer_norm max_pool1d avg_pool1d "
    "contiguous linear to float".split()
)
_STEPS = 12
_REDUCTIONS = frozenset({"mean", "amax", "max"})
_LAID_OUT = RELAYOUTS | {"rearrange", "swapaxes", "pack_padded_sequence"}
_POSITIONS = {"lstm": 4, "gru": 4, "rnn": 4}
"""How many positional arguments of a recurrent layer stand before ``batch_first``, or may; 6 for transformer layers."""


class BatchReadAsSequence(Rule):
    """
    ## What it does
    Finds recurrent and transformer layers without `batch_first=True` whose output is read as (batch, time, features):
    its last, middle or first element along dimension 1 (`out[:, -1]`), or a mean over it.

    ## Why is this bad?
    Without `batch_first`, dimension 0 is time and dimension 1 the batch. The shapes fit, so nothing raises: the layer
    runs along the batch, so samples mix, time steps never interact, and the selected or averaged element belongs to
    another sample.

    Layers whose input is explicitly rearranged (permuted, unsqueezed, viewed) are not reported.

    ## Example
    ```python
    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(16, 32)
            self.head = nn.Linear(32, 4)

        def forward(self, x):
            out, _ = self.lstm(x)
            return self.head(out[:, -1])
    ```
    Use instead:
    ```python
    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(16, 32, batch_first=True)
            self.head = nn.Linear(32, 4)

        def forward(self, x):
            out, _ = self.lstm(x)
            return self.head(out[:, -1])
    ```

    ## Fix safety
    Unsafe: it changes what the model computes.
    """

    code, name, since = "DG752", "batch-read-as-sequence", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            class Last(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.lstm = nn.LSTM(16, 32, batch_first=True)
                    self.gru = nn.GRU(16, 32)

                def forward(self, x):
                    out, _ = self.lstm(x)
                    time_major, _ = self.gru(x.transpose(0, 1))
                    return out[:, -1], time_major[-1], time_major.mean(dim=0)
            """
        ),
        Valid(
            """
            class One(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.lstm = nn.LSTM(16, 32)

                def forward(self, x):
                    out, _ = self.lstm(x.unsqueeze(1))  # a batch of one
                    return out[:, -1]
            """
        ),
        Valid(
            """
            class Pool(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2), 2)

                def forward(self, x):
                    return self.encoder(x).transpose(0, 1).mean(dim=1)
            """
        ),
        Valid(
            """
            class Samples(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2), 2)
                    self.gru = nn.GRU(16, 16)

                def forward(self, x):
                    out, _ = self.gru(x)
                    first = out[:, 0]  # the only sample
                    h = self.encoder(x)
                    return first, [h[:, i] for i in range(h.size(1))]
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            class Centre(nn.Module):
                def __init__(self, window):
                    super().__init__()
                    self.centre = window // 2
                    self.embedding = nn.Embedding(21, 16)
                    self.offset = nn.Parameter(torch.zeros(window, 16))
                    layer = nn.TransformerEncoderLayer(d_model=16, nhead=2)
                    self.encoder = nn.TransformerEncoder(layer, 2)

                def forward(self, tokens):
                    h = self.encoder(self.embedding(tokens) + self.offset)
                    return h[:, self.centre]
            """,
            """
            class Centre(nn.Module):
                def __init__(self, window):
                    super().__init__()
                    self.centre = window // 2
                    self.embedding = nn.Embedding(21, 16)
                    self.offset = nn.Parameter(torch.zeros(window, 16))
                    layer = nn.TransformerEncoderLayer(d_model=16, nhead=2, batch_first=True)
                    self.encoder = nn.TransformerEncoder(layer, 2)

                def forward(self, tokens):
                    h = self.encoder(self.embedding(tokens) + self.offset)
                    return h[:, self.centre]
            """,
        ),
        Invalid(
            """
            class Token(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.first = nn.Parameter(torch.zeros(1, 1, 16))
                    self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2), 2)

                def forward(self, x):
                    x = torch.cat([self.first.expand(x.size(0), -1, -1), x], dim=1)
                    return self.encoder(x)[:, 0]
            """,
            """
            class Token(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.first = nn.Parameter(torch.zeros(1, 1, 16))
                    self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, batch_first=True), 2)

                def forward(self, x):
                    x = torch.cat([self.first.expand(x.size(0), -1, -1), x], dim=1)
                    return self.encoder(x)[:, 0]
            """,
        ),
        Invalid(
            """
            class Last(nn.Module):
                def __init__(self, classes):
                    super().__init__()
                    self.lstm = nn.LSTM(16, 32)
                    self.head = nn.Linear(32, classes)

                def forward(self, x):
                    out, _ = self.lstm(x)
                    return self.head(out[:, -1, :])
            """,
            """
            class Last(nn.Module):
                def __init__(self, classes):
                    super().__init__()
                    self.lstm = nn.LSTM(16, 32, batch_first=True)
                    self.head = nn.Linear(32, classes)

                def forward(self, x):
                    out, _ = self.lstm(x)
                    return self.head(out[:, -1, :])
            """,
            at=(4, 20, 4, 35),
        ),
        Invalid(
            """
            class Smoothed(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.conv = nn.Conv1d(6, 16, 8, stride=4)
                    self.lstm = nn.LSTM(16, 32)

                def forward(self, x):
                    h = F.relu(self.conv(x)).transpose(1, 2)
                    out, _ = self.lstm(h)
                    return out[:, -1]
            """,
            """
            class Smoothed(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.conv = nn.Conv1d(6, 16, 8, stride=4)
                    self.lstm = nn.LSTM(16, 32, batch_first=True)

                def forward(self, x):
                    h = F.relu(self.conv(x)).transpose(1, 2)
                    out, _ = self.lstm(h)
                    return out[:, -1]
            """,
        ),
        Invalid(
            """
            class Pool(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.embedding = nn.Embedding(100, 16)
                    layer = nn.TransformerEncoderLayer(d_model=16, nhead=2)
                    self.encoder = nn.TransformerEncoder(layer, 2)

                def encode(self, tokens):
                    return self.encoder(self.embedding(tokens))

                def forward(self, tokens):
                    return self.encode(tokens).mean(dim=1)
            """,
            """
            class Pool(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.embedding = nn.Embedding(100, 16)
                    layer = nn.TransformerEncoderLayer(d_model=16, nhead=2, batch_first=True)
                    self.encoder = nn.TransformerEncoder(layer, 2)

                def encode(self, tokens):
                    return self.encoder(self.embedding(tokens))

                def forward(self, tokens):
                    return self.encode(tokens).mean(dim=1)
            """,
        ),
    ]

    def visit_class(self, node: ast.ClassDef, ctx: Context) -> Iterator[Finding]:
        if not ctx.is_module_class(node):
            return
        reported: set[ast.Call] = set()
        for place in walk(node):
            call = _layer_read_batch_first(place, ctx)
            layer = _time_major_layer(call) if call is not None else None
            if layer is None or layer in reported or call is None or not _is_laid_out_by_nobody(call, ctx):
                continue
            assert isinstance(place, ast.expr)
            reported.add(layer)
            message = (
                "without batch_first=True, dimension 0 is time, but dimension 1 is read as time; samples of a batch mix"
            )
            fix = ctx.fix("Pass `batch_first=True`", with_keyword(ctx, layer, "batch_first", "True"))
            yield ctx.finding(self, layer, message, related=[("dimension 1 is read here", place)], fixes=[fix])


def _layer_read_batch_first(node: ast.AST, ctx: Context) -> TorchCall | None:
    """Return the call of the layer whose output an expression reads along dimension 1; None for anything else."""
    match node:
        case ast.Subscript(value=read, slice=ast.Tuple(elts=[ast.Slice(lower=None, upper=None), index, *_])):
            pass
        case ast.Call():
            call = ctx.call(node)
            if call is None or call.operation not in _REDUCTIONS or call.value("dim") != Constant(1):
                return None
            read, index = call.operand("input"), None
        case _:
            return None
    tensor = ctx.tensor(read)
    made = tensor.origin if tensor is not None else None
    if made is None or made.operation not in RECURRENT | _TRANSFORMERS:
        return None
    return made.call if index is None or _is_place_in_time(index, made.operation, ctx) else None


def _is_place_in_time(index: ast.expr, operation: str, ctx: Context) -> bool:
    """Say whether an index picks an element of a sequence: the last, the middle; the first is that of a class token.

    A recurrent layer's first element tells nothing, so there it is the first sample, of a batch of one perhaps.
    """
    match index:
        case ast.Attribute(value=ast.Name(id="self")) | ast.BinOp(op=ast.FloorDiv()):
            return ctx.tensor(index) is None
        case _:
            value = ctx.value(index)
            return value == Constant(-1) or (value == Constant(0) and operation in _TRANSFORMERS)


def _time_major_layer(call: TorchCall) -> ast.Call | None:
    """Return the constructor of a layer that surely takes time first; None where it may take the batch first."""
    layer = call.module
    if layer is not None and call.operation == "transformer_encoder":
        inner = layer.arguments.get("encoder_layer", 0)
        layer = inner if isinstance(inner, Object) else None
    if layer is None or not isinstance(layer.node, ast.Call) or _may_be_positional(layer, call):
        return None
    return layer.node if layer.arguments.get("batch_first") in (None, Constant(False)) else None


def _may_be_positional(layer: Object, call: TorchCall) -> bool:
    return len(layer.arguments.positional) > _POSITIONS.get(call.operation, 6)


def _is_laid_out_by_nobody(call: TorchCall, ctx: Context) -> bool:
    """Say whether the layer's input comes as it is: a parameter, or what another operation computed."""
    given = next(iter(call.operands), None)
    tensor = ctx.tensor(given)
    if tensor is None:
        return isinstance(given, ast.Name) and _is_parameter(given, ctx)
    if tensor.shape is not None and (len(tensor.shape) != 3 or tensor.shape[1] == 1):
        return False
    if _begins_with_batch(tensor):
        return True
    origin = tensor.origin
    inner = [value for value in (origin.operands if origin is not None else ()) if isinstance(value, Tensor)]
    return not any(value.origin is not None and value.origin.operation in _LAID_OUT for value in (tensor, *inner[:1]))


def _begins_with_batch(tensor: Tensor) -> bool:
    """Say whether dimension 0 surely is the batch: a convolution left it there, and nothing has moved it since."""
    for _ in range(_STEPS):
        origin = tensor.origin
        if origin is None or origin.operation in _CONVOLUTIONS:
            return origin is not None
        inner = next((value for value in origin.operands if isinstance(value, Tensor)), None)
        if inner is None or not (origin.operation in _KEEPS_AXES or _keeps_first(origin)):
            return False
        tensor = inner
    return False


def _keeps_first(origin: Origin) -> bool:
    """Say whether axes are exchanged, and the first is none of them."""
    call = origin.call
    if call is None or not all(isinstance(value, Constant) for value in call.values[1:]):
        return False
    axes = [value.value for value in call.values[1:] if isinstance(value, Constant)]
    if origin.operation == "transpose":
        return len(axes) == 2 and all(isinstance(axis, int) and axis in (1, 2, -1) for axis in axes)
    return origin.operation == "permute" and axes == [0, 2, 1]


def _is_parameter(given: ast.Name, ctx: Context) -> bool:
    """Say whether a name is a parameter that its function never binds anew."""
    function = ctx.function(given)
    if function is None:
        return False
    is_given = any(isinstance(n, ast.arg) and n.arg == given.id for n in walk(function.args))
    stores = (n for n in walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return is_given and all(store.id != given.id for store in stores)
