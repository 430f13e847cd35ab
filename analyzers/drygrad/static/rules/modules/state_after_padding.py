"""Rule DG768: the last state of a recurrent layer that has also read the padding."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Constant, Object, Tensor, TorchCall
from drygrad.static.rules.modules.recurrent import RECURRENT, result_names
from drygrad.static.syntax import body_nodes, called, rebound_between, scope_of

_HANDLES = re.compile(r"pack_padded|pack_sequence|(^|_)len(gth)?s?(_|$)|left|flip|lens", re.I)


class StateAfterPadding(Rule):
    """
    ## What it does
    Finds `out[:, -1]`, or the last hidden state, of an LSTM, GRU or RNN over embeddings with `padding_idx`, in a file
    that pads its sequences with `pad_sequence` but neither packs them nor knows their lengths.

    ## Why is this bad?
    Sequences in a batch are padded at the end. For a short one, the last step comes many padding steps after the last
    word: by then the state has partly forgotten the sentence, and it depends on the rest of the batch.
    `pack_padded_sequence` stops at the end of each sequence; or select the output at `lengths - 1`.

    ## Example
    ```python
    embedding = nn.Embedding(1000, 8, padding_idx=0)
    lstm = nn.LSTM(8, 16, batch_first=True)
    x = pad_sequence(sentences, batch_first=True)
    out, (h, c) = lstm(embedding(x))
    features = out[:, -1]
    ```
    Use instead:
    ```python
    embedding = nn.Embedding(1000, 8, padding_idx=0)
    lstm = nn.LSTM(8, 16, batch_first=True)
    lengths = torch.tensor([len(s) for s in sentences])
    x = pad_sequence(sentences, batch_first=True)
    packed = pack_padded_sequence(embedding(x), lengths, batch_first=True, enforce_sorted=False)
    out, (h, c) = lstm(packed)
    features = h[-1]
    ```

    ## Fix safety
    No fix: the lengths needed for packing may not be available there.
    """

    code, name, since = "DG768", "state-after-padding", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

            class Tagger(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.emb = nn.Embedding(50, 8, padding_idx=0)
                    self.gru = nn.GRU(8, 16, batch_first=True)

                def forward(self, x, sizes):
                    packed = pack_padded_sequence(self.emb(x), sizes, batch_first=True, enforce_sorted=False)
                    return self.gru(packed)[1][-1]

            def collate(batch):
                return pad_sequence(batch, batch_first=True)
            """
        ),
        Valid(
            """
            class Fixed(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.emb, self.gru = nn.Embedding(50, 8), nn.GRU(8, 16, batch_first=True)

                def forward(self, x):
                    out, _ = self.gru(self.emb(x))
                    return out[:, -1]
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            from torch.nn.utils.rnn import pad_sequence

            class Tagger(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.emb = nn.Embedding(50, 8, padding_idx=0)
                    self.gru = nn.GRU(8, 16, batch_first=True)
                    self.fc = nn.Linear(16, 2)

                def forward(self, x):
                    out, _ = self.gru(self.emb(x))
                    return self.fc(out[:, -1])

            def collate(batch):
                seqs, labels = zip(*batch)
                return pad_sequence(seqs, batch_first=True), torch.tensor(labels)
            """,
            at=(12, 23, 12, 33),
        ),
        Invalid(
            """
            from torch.nn.utils.rnn import pad_sequence

            class Tagger(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.emb = nn.Embedding(50, 8, padding_idx=0)
                    self.lstm = nn.LSTM(8, 16, batch_first=True)

                def forward(self, x):
                    _, (h, c) = self.lstm(self.emb(x))
                    return h[-1]

            def collate(batch):
                return pad_sequence(batch, batch_first=True)
            """
        ),
    ]

    def visit_assign(self, node: ast.Assign, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node.value)
        if call is None or call.operation not in RECURRENT or not _reads_padding(call, ctx) or not ctx.derived(_pads):
            return
        output, state = result_names(node.targets[0])
        scope = scope_of(node, ctx)
        for read in body_nodes(scope):
            if not isinstance(read, ast.Subscript) or read.lineno <= node.lineno:
                continue
            name = dotted_text(read.value)
            is_last = (name == output and _is_last_step(read, call, ctx)) or (
                name == state and _is_last(read.slice, ctx)
            )
            if name is not None and is_last and not rebound_between(name, node, read, scope):
                message = "the last state of a padded sequence: the layer has also read the padding before it"
                yield ctx.finding(self, read, message, related=[("the layer runs over the padding here", node.value)])
                return


def _reads_padding(call: TorchCall, ctx: Context) -> bool:
    """Say whether a layer gets embeddings of tokens among which one is the padding."""
    given = call.values[0] if call.values else None
    made = given.origin if isinstance(given, Tensor) else None
    if made is not None and made.operation == "dropout" and made.operands:
        inner = made.operands[0]
        made = inner.origin if isinstance(inner, Tensor) else None
    layer = made.call.module if made is not None and made.operation == "embedding" and made.call is not None else None
    return isinstance(layer, Object) and isinstance(layer.arguments.get("padding_idx", 2), Constant)


def _pads(ctx: Context) -> bool:
    """Say whether a file pads sequences at their ends, and nothing in it speaks of their lengths."""
    if not any(called(call) == "pad_sequence" for call in ctx.nodes(ast.Call)):
        return False
    names = [
        *(n.id for n in ctx.nodes(ast.Name)),
        *(n.attr for n in ctx.nodes(ast.Attribute)),
        *(a.arg for a in ctx.nodes(ast.arg)),
    ]
    return not any(_HANDLES.search(name) and name != "len" for name in names)


def _is_last(index: ast.expr, ctx: Context) -> bool:
    return ctx.value(index) == Constant(-1)


def _is_last_step(read: ast.Subscript, call: TorchCall, ctx: Context) -> bool:
    match read.slice:
        case ast.Tuple(elts=[ast.Slice(lower=None, upper=None), step, *_]):
            return call.constant("batch_first", False) is True and _is_last(step, ctx)
        case step:
            return call.constant("batch_first", False) is False and _is_last(step, ctx)
