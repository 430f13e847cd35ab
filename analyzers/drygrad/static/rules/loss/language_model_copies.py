"""Rule DG331: a causal model that is trained to give the token it was given."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Constant, Object, options_of
from drygrad.static.rules.modules.recurrent import RECURRENT
from drygrad.static.syntax import called, last_assignment
from drygrad.static.tree import walk

_LAYOUT = frozenset({"view", "reshape", "flatten", "transpose", "permute", "contiguous", "long", "to", "mT"})


class LanguageModelCopies(Rule):
    """
    ## What it does
    Finds `cross_entropy` on a model's scores per position with the model's own input tokens as targets, if the model
    reads them in order: a unidirectional recurrent layer, or a causal mask.

    ## Why is this bad?
    At each position the model has just seen the answer. The loss quickly falls to zero, and the model only learns to
    copy. A language model must predict the next token: scores at `[:, :-1]`, targets from `[:, 1:]`.

    ## Example
    ```python
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(1000, 64)
            self.rnn = nn.GRU(64, 64, batch_first=True)
            self.head = nn.Linear(64, 1000)

        def forward(self, tokens):
            return self.head(self.rnn(self.embedding(tokens))[0])


    model = Model()
    loss = F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    ```
    Use instead:
    ```python
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(1000, 64)
            self.rnn = nn.GRU(64, 64, batch_first=True)
            self.head = nn.Linear(64, 1000)

        def forward(self, tokens):
            return self.head(self.rnn(self.embedding(tokens))[0])


    model = Model()
    loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    ```

    ## Fix safety
    No fix: tokens can be shifted in the data, in the model's input or in the loss, but only in one of them.
    """

    code, name, since = "DG331", "language-model-copies", "0.1"
    severity = "warning"
    calls = frozenset({"cross_entropy"})
    VALID = [
        Valid(
            """
            class LM(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.emb, self.rnn = nn.Embedding(40, 8), nn.GRU(8, 16, batch_first=True)
                    self.out = nn.Linear(16, 40)

                def forward(self, tokens):
                    h, _ = self.rnn(self.emb(tokens))
                    return self.out(h)

            def step(tokens, masked):
                model = LM()
                logits = model(tokens)
                loss = F.cross_entropy(logits[:, :-1].reshape(-1, 40), tokens[:, 1:].reshape(-1))
                x, y = tokens[:, :-1], tokens[:, 1:]
                return loss + F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            """
        ),
        Valid(
            """
            class Tagger(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.emb, self.rnn = nn.Embedding(40, 8), nn.GRU(8, 20, batch_first=True, bidirectional=True)

                def forward(self, tokens):
                    return self.rnn(self.emb(tokens))[0]

            def step(tokens, tags):
                return F.cross_entropy(Tagger()(tokens).flatten(0, 1), tags.flatten())
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            class LM(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.emb, self.rnn = nn.Embedding(40, 8), nn.GRU(8, 16, batch_first=True)
                    self.out = nn.Linear(16, 40)

                def forward(self, tokens):
                    h, _ = self.rnn(self.emb(tokens))
                    return self.out(h)

            model, criterion = LM(), nn.CrossEntropyLoss()
            for tokens in loader:
                logits = model(tokens)
                loss = criterion(logits.view(-1, 40), tokens.view(-1))
                loss.backward()
            """,
            at=(14, 42, 14, 57),
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        scores = call.operand("input") if call is not None else None
        target = call.operand("target") if call is not None else None
        if scores is None or target is None:
            return
        tokens, model = _plain(target), _plain(scores)
        for _ in range(2):
            if isinstance(model, ast.Name):
                given = last_assignment(ctx, model.id, ctx.statement(node))
                model = _plain(given) if given is not None else model
        match model:
            case ast.Call(func=function, args=[first, *_]):
                text = dotted_text(tokens)
                same = text is not None and dotted_text(first) == text
            case _:
                return
        if same and any(_is_causal(option, ctx) for option in options_of(ctx.value(function))):
            message = f"the targets {text} are not shifted; the model can copy the token it has just read"
            yield ctx.finding(self, target, message, related=[("passed to the model here", model)])


def _plain(node: ast.expr) -> ast.expr:
    """Return what an expression lays out anew."""
    while True:
        match node:
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _LAYOUT:
                node = inner
            case _:
                return node


def _is_causal(model: object, ctx: Context) -> bool:
    """Say whether a module of the file reads a sequence of tokens in order only, and tells something of each."""
    if not isinstance(model, Object) or model.cls is None:
        return False
    layers = [value for value in ctx.facts.attributes(model).values() if isinstance(value, Object)]
    kinds = [layer.type.rpartition(".")[2] for layer in layers]
    if "Embedding" not in kinds:
        return False
    if any(kind in ("TransformerEncoder", "TransformerEncoderLayer", "MultiheadAttention") for kind in kinds):
        return any(_masks(part) for part in walk(model.cls.node))
    recurrent = [layer for layer in layers if layer.type.rpartition(".")[2].lower() in RECURRENT]
    one_way = all(layer.arguments.get("bidirectional") in (None, Constant(False)) for layer in recurrent)
    return len(recurrent) == 1 and one_way and recurrent[0].arguments.complete


def _masks(node: ast.AST) -> bool:
    match node:
        case ast.keyword(arg="is_causal", value=ast.Constant(value=True)):
            return True
        case ast.Call():
            return called(node) in ("triu", "tril", "generate_square_subsequent_mask")
        case _:
            return False
