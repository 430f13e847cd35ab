"""Rule DG313: class scores in the last dimension of cross-entropy's input."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.shapes import shape_text
from drygrad.static.rules.loss.class_dimension import classes_last
from drygrad.static.rules.loss.pairs import Sized, pair, with_suffix


class CrossEntropyClassDimension(Rule):
    """
    ## What it does
    Finds `cross_entropy` and `nll_loss` on scores with the classes in the last dimension, (N, T, C), and targets of
    shape (N, T).

    ## Why is this bad?
    These losses expect the classes in dimension 1. They raise "Expected target size [N, C], got [N, T]"; if T and C
    happen to be equal they run, and read the scores of other positions as scores of classes.

    ## Example
    ```python
    logits, target = torch.randn(2, 5, 100), torch.randint(0, 100, (2, 5))
    loss = F.cross_entropy(logits, target)
    ```
    Use instead:
    ```python
    logits, target = torch.randn(2, 5, 100), torch.randint(0, 100, (2, 5))
    loss = F.cross_entropy(logits.transpose(1, 2), target)
    ```

    ## Fix safety
    Unsafe: if both sizes are equal it changes the loss.
    """

    code, name, since = "DG313", "cross-entropy-class-dimension", "0.1"
    severity = "error"
    calls = frozenset({"cross_entropy", "nll_loss"})
    VALID = [
        Valid("loss = F.cross_entropy(torch.randn(2, 100, 5), torch.randint(0, 100, (2, 5)))"),
        Valid("loss = F.cross_entropy(torch.randn(2, 5, 100).transpose(1, 2), torch.randint(0, 100, (2, 5)))"),
        Valid("loss = F.cross_entropy(torch.randn(2, 5, 100).view(-1, 100), torch.randint(0, 100, (2, 5)).view(-1))"),
        Valid(
            "# which of the two is meant nobody can tell\n"
            "F.cross_entropy(torch.randn(2, 5, 5), torch.randint(0, 5, (2, 5)))"
        ),
        Valid(
            """
            def loss_of(logits, target):
                b, c, t = logits.shape
                return F.cross_entropy(logits, target.view(b, t))
            """
        ),
    ]
    INVALID = [
        Invalid(
            "loss = F.cross_entropy(torch.randn(2, 5, 100), torch.randint(0, 100, (2, 5)))",
            "loss = F.cross_entropy(torch.randn(2, 5, 100).transpose(1, 2), torch.randint(0, 100, (2, 5)))",
            at=(1, 23, 1, 45),
        ),
        Invalid(
            """
            class Tagger(nn.Module):
                def __init__(self, vocabulary=5000, tags=17):
                    super().__init__()
                    self.embedding = nn.Embedding(vocabulary, 64)
                    self.lstm = nn.LSTM(64, 128, batch_first=True)
                    self.out = nn.Linear(128, tags)

                def forward(self, tokens):
                    hidden, _ = self.lstm(self.embedding(tokens))
                    return self.out(hidden)

            model, criterion = Tagger(), nn.CrossEntropyLoss()
            tokens, tags = torch.randint(0, 5000, (8, 40)), torch.randint(0, 17, (8, 40))
            loss = criterion(model(tokens), tags)
            """,
            """
            class Tagger(nn.Module):
                def __init__(self, vocabulary=5000, tags=17):
                    super().__init__()
                    self.embedding = nn.Embedding(vocabulary, 64)
                    self.lstm = nn.LSTM(64, 128, batch_first=True)
                    self.out = nn.Linear(128, tags)

                def forward(self, tokens):
                    hidden, _ = self.lstm(self.embedding(tokens))
                    return self.out(hidden)

            model, criterion = Tagger(), nn.CrossEntropyLoss()
            tokens, tags = torch.randint(0, 5000, (8, 40)), torch.randint(0, 17, (8, 40))
            loss = criterion(model(tokens).transpose(1, 2), tags)
            """,
        ),
        Invalid(
            """
            head = nn.Linear(64, 1000)

            def loss_of(hidden, target: torch.Tensor):
                b, t, c = hidden.size()
                logits = head(hidden)
                return F.cross_entropy(logits, target.view(b, t))
            """,
            """
            head = nn.Linear(64, 1000)

            def loss_of(hidden, target: torch.Tensor):
                b, t, c = hidden.size()
                logits = head(hidden)
                return F.cross_entropy(logits.transpose(1, 2), target.view(b, t))
            """,
        ),
        Invalid(
            "x, y = torch.randn(2, 8, 9, 21), torch.randint(0, 21, (2, 8, 9))\nloss = F.cross_entropy(x, y)",
            "x, y = torch.randn(2, 8, 9, 21), torch.randint(0, 21, (2, 8, 9))\n"
            "loss = F.cross_entropy(x.movedim(-1, 1), y)",
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        shapes = pair(ctx, call) if call else None
        if call is None or shapes is None or not classes_last(call, *shapes):
            return
        given, target = shapes
        yield ctx.finding(
            self,
            given.expression,
            f"{call.operation} expects classes in dimension 1; the input {shape_text(given.shape)} has them last, "
            f"target {shape_text(target.shape)}",
            fixes=self._fixes(ctx, given, target),
        )

    def _fixes(self, ctx: Context, given: Sized, target: Sized) -> Iterator[Fix | None]:
        moved = ".transpose(1, 2)" if len(given.shape) == 3 else ".movedim(-1, 1)"
        yield with_suffix(ctx, given.expression, moved)
        flat = [
            with_suffix(ctx, given.expression, ".flatten(0, -2)"),
            with_suffix(ctx, target.expression, ".flatten()"),
        ]
        yield ctx.fix("Flatten input and target", *(fix.edits[0] for fix in flat if fix is not None))
