"""Rule DG312: softmax without a dimension."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import with_keyword
from drygrad.static.facts.values import NONE, Tensor, TorchCall

_FUNCTIONS = frozenset({"softmax", "log_softmax", "softmin"})
_CLASSES = frozenset({"Softmax", "LogSoftmax", "Softmin"})


class SoftmaxWithoutDim(Rule):
    """
    ## What it does
    Finds `F.softmax`, `F.log_softmax`, `F.softmin` and their modules without `dim`.

    ## Why is this bad?
    The implicit choice of a dimension is deprecated and surprising: torch uses dimension 0 for tensors with 0, 1 or 3
    dimensions, and dimension 1 for all others. With (batch, time, classes) that silently normalizes over the batch.

    ## Example
    ```python
    weights = F.softmax(torch.randn(2, 8))
    ```
    Use instead:
    ```python
    weights = F.softmax(torch.randn(2, 8), dim=1)
    ```

    ## Fix safety
    Safe: it makes the dimension that torch chooses explicit; offered if the number of dimensions is known.
    """

    code, name, since = "DG312", "softmax-without-dim", "0.1"
    severity = "warning"
    calls = _FUNCTIONS | _CLASSES
    VALID = [
        Valid("def f(x):\n    return F.softmax(x, 1), F.log_softmax(x, dim=-1), x.softmax(0), torch.softmax(x, dim=1)"),
        Valid("net = nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=1), nn.LogSoftmax(-1))"),
        Valid("def f(a: torch.Tensor, b):\n    return F.softmax(torch.bmm(a, b), dims=-1)", target_torch="2.1"),
        Valid("def f(x, **kwargs):\n    return F.softmax(x, **kwargs)"),
        Valid("def f(x, dim):\n    return nn.Softmax(dim)(x), F.gumbel_softmax(x), nn.Softmax2d()(x)"),
    ]
    INVALID = [
        Invalid(
            "weights = F.softmax(torch.randn(2, 8))",
            "weights = F.softmax(torch.randn(2, 8), dim=1)",
            at=(1, 10, 1, 38),
            severity="info",
        ),
        Invalid(
            "weights = F.softmax((torch.randn(2, 8)))",
            "weights = F.softmax((torch.randn(2, 8)), dim=1)",
            severity="info",
        ),
        Invalid(
            """
            class Attention(nn.Module):
                def __init__(self, size):
                    super().__init__()
                    self.query, self.key = nn.Linear(size, size), nn.Linear(size, size)
                    self.softmax = nn.Softmax()

                def forward(self, x):
                    scores = self.query(x) @ self.key(x).transpose(-2, -1)
                    return self.softmax(scores) @ x

            out = Attention(64)(torch.randn(2, 10, 64))
            """,
            """
            class Attention(nn.Module):
                def __init__(self, size):
                    super().__init__()
                    self.query, self.key = nn.Linear(size, size), nn.Linear(size, size)
                    self.softmax = nn.Softmax(dim=0)

                def forward(self, x):
                    scores = self.query(x) @ self.key(x).transpose(-2, -1)
                    return self.softmax(scores) @ x

            out = Attention(64)(torch.randn(2, 10, 64))
            """,
        ),
        Invalid("def f(x):\n    return F.log_softmax(x)", severity="info"),
        Invalid(
            "p = nn.LogSoftmax(dim=None)(torch.randn(2, 3, 4, 4))",
            "p = nn.LogSoftmax(dim=1)(torch.randn(2, 3, 4, 4))",
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        call = ctx.call(node)
        if call is None or not _leaves_dim_open(call):
            return
        rank = _rank(_inputs(ctx, call))
        dim = _implied_dim(rank) if rank is not None else None
        wrong = rank is not None and dim != rank - 1 and rank > 1
        softmax = call.target.rpartition(".")[2]
        chosen = "dimension 0 for tensors with 0, 1 or 3 dimensions, else 1"
        if rank is not None:
            chosen = f"dimension {dim} of a tensor with {rank}"
        nothing = next((a for a in node.args if isinstance(a, ast.Constant) and a.value is None), None)
        edit = ctx.replace(nothing, str(dim)) if nothing is not None else with_keyword(ctx, node, "dim", str(dim))
        fix = None if dim is None else ctx.fix(f"Add `dim={dim}`", edit, safety="safe")
        yield ctx.finding(
            self,
            node,
            f"{softmax} without dim is deprecated; it uses {chosen}",
            severity=None if wrong else "info",
            fixes=[fix],
        )


_KEYWORDS = frozenset({"dim", "input", "dtype", "_stacklevel"})
"""Of other keywords nothing is known: torch takes none, and what is written in their place may be the dimension."""


def _leaves_dim_open(call: TorchCall) -> bool:
    """Say whether neither the function nor the module's constructor gets a dimension."""
    package, _, name = call.target.rpartition(".")
    if package == "torch.nn" and name in _CLASSES and call.form == "function":
        given = call.values[0] if call.values else call.keyword_values.get("dim", NONE)
    elif package == "torch.nn.functional":
        given = call.value("dim") or NONE
    else:
        return False
    others = any(k.arg not in _KEYWORDS for k in call.node.keywords)
    return given == NONE and not others and not any(isinstance(a, ast.Starred) for a in call.node.args)


def _implied_dim(rank: int) -> int:
    """Return the dimension that torch takes where none is given."""
    return 0 if rank in (0, 1, 3) else 1


def _inputs(ctx: Context, call: TorchCall) -> Iterable[TorchCall]:
    """Return the calls that apply the softmax: of a module all that the file shows."""
    if call.target.startswith("torch.nn.functional."):
        return [call]
    return [c for c in ctx.facts.recording.calls.values() if c.module is not None and c.module.node is call.node]


def _rank(calls: Iterable[TorchCall]) -> int | None:
    """Return the number of dimensions of what all calls get; None where it is unknown or not the same."""
    values = [call.values[0] if call.values else call.keyword_values.get("input") for call in calls]
    ranks = {len(v.shape) if isinstance(v, Tensor) and v.shape is not None else None for v in values}
    return ranks.pop() if len(ranks) == 1 else None
