"""Rule DG611: a dataset that goes through all its data for each sample."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.datasets import sample_methods
from drygrad.static.facts.values import Number, Object
from drygrad.static.tree import walk

_GOES_THROUGH = frozenset(
    "mean std var sum min max amin amax median quantile norm sort argsort unique cumsum logsumexp prod nanmean".split()
)


class WholeSetPerSample(Rule):
    """
    ## What it does
    Finds reductions of everything that a dataset holds (`self.data.mean(0)`) in its `__getitem__`.

    ## Why is this bad?
    The result is the same for every index, but is computed anew for each sample: an epoch costs n times the work of
    the whole data, and the GPU waits for it.

    ## Example
    ```python
    def __getitem__(self, index):
        return (self.data[index] - self.data.mean(0)) / self.data.std(0)
    ```
    Use instead:
    ```python
    def __init__(self, data):
        self.data = (data - data.mean(0)) / data.std(0)


    def __getitem__(self, index):
        return self.data[index]
    ```
    """

    code, name, since = "DG611", "whole-set-per-sample", "0.1"
    severity = "info"
    VALID = [
        Valid(
            """
            class Genes(torch.utils.data.Dataset):
                def __init__(self, counts):
                    self.counts = (counts - counts.mean(0)) / counts.std(0)

                def __len__(self):
                    return len(self.counts)

                def __getitem__(self, index):
                    row = self.counts[index]
                    return (row - row.mean()) / self.counts[index].std()
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            class Genes(torch.utils.data.Dataset):
                def __init__(self, counts):
                    self.counts = torch.log1p(counts)

                def __len__(self):
                    return len(self.counts)

                def __getitem__(self, index):
                    scaled = (self.counts - self.counts.mean(0)) / (self.counts.std(0) + 1e-6)
                    return scaled[index]
            """,
            at=(9, 32, 9, 51),
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        for method in sample_methods(ctx):
            reported: set[ast.stmt] = set()
            for part in walk(method):
                whole = _reduced(part, ctx)
                if whole is None or ctx.statement(part) in reported:
                    continue
                reported.add(ctx.statement(part))
                assert isinstance(part, ast.Call)
                text = ctx.source_of(whole)
                message = f"all of {text} is gone through anew for each sample: compute this once, in __init__"
                yield ctx.finding(self, part, message)


def _reduced(node: ast.AST, ctx: Context) -> ast.expr | None:
    """Return the attribute of the dataset that a call reduces as a whole; None for other nodes."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self")) as whole, attr=name)):
            pass
        case _:
            return None
    if name not in _GOES_THROUGH or isinstance(ctx.value(whole), (Object, Number)):
        return None
    return whole
