"""Rule DG754: the dropout of a recurrent layer that has but one level."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Constant, Object
from drygrad.static.syntax import argument

_RECURRENT = frozenset({"torch.nn.LSTM", "torch.nn.GRU", "torch.nn.RNN"})


class DropoutBetweenNoLayers(Rule):
    """
    ## What it does
    Finds `nn.LSTM(..., dropout=p)`, `nn.GRU` and `nn.RNN` with a single layer.

    ## Why is this bad?
    `dropout` applies between stacked layers: after each one but the last. With `num_layers=1`, the default, nothing is
    ever dropped, so the network is less regularized than the code suggests. torch warns, but does not raise.

    ## Example
    ```python
    self.lstm = nn.LSTM(64, 128, dropout=0.5, batch_first=True)
    ```
    Use instead:
    ```python
    self.lstm = nn.LSTM(64, 128, batch_first=True)
    self.dropout = nn.Dropout(0.5)
    ```

    ## Fix safety
    No fix: a second layer, a `Dropout` after it, or none at all are different models.
    """

    code, name, since = "DG754", "dropout-between-no-layers", "0.1"
    severity = "info"
    VALID = [
        Valid("lstm = nn.LSTM(64, 128, num_layers=2, dropout=0.5)"),
        Valid("gru = nn.GRU(64, 128, 3, dropout=0.5)"),
        Valid("lstm = nn.LSTM(64, 128, dropout=0.0)"),
        Valid("def make(layers, p):\n    return nn.LSTM(64, 128, layers, dropout=p if layers > 1 else 0.0)"),
    ]
    INVALID = [
        Invalid("lstm = nn.LSTM(64, 128, dropout=0.5, batch_first=True)", at=(1, 32, 1, 35)),
        Invalid("gru = nn.GRU(64, 128, 1, dropout=0.5)"),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        if ctx.name(node.func) not in _RECURRENT:
            return
        made = ctx.value(node)
        if not isinstance(made, Object) or not made.arguments.complete:
            return
        layers = made.arguments.get("num_layers", 2)
        dropout = made.arguments.get("dropout")
        given = argument(node, "dropout")
        drops = isinstance(dropout, Constant) and isinstance(dropout.value, (int, float)) and dropout.value > 0
        if given is not None and drops and layers in (None, Constant(1)):
            message = "dropout has no effect in a single-layer RNN; it is applied between layers only"
            yield ctx.finding(self, given, message)
