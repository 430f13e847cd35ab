"""Rule DG727: a distributed sampler that shuffles in the same way in each epoch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Constant, Object
from drygrad.static.loops import trains
from drygrad.static.syntax import own_nodes

_SAMPLER = "DistributedSampler"


class SamplerEpochNotSet(Rule):
    """
    ## What it does
    Finds a shuffling `DistributedSampler` in a file that trains for several epochs and never calls `set_epoch`.

    ## Why is this bad?
    The sampler's order depends on its seed and on the epoch set by `set_epoch`. Without that call the order is the same
    in every epoch: the same samples form the same batches, and each process always sees the same part of the data.

    ## Example
    ```python
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, sampler=sampler)
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
    ```
    Use instead:
    ```python
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, sampler=sampler)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
    ```
    """

    code, name, since = "DG727", "sampler-epoch-not-set", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            from torch.utils.data import DataLoader
            from torch.utils.data.distributed import DistributedSampler

            def train(data, model, optimizer):
                sampler = DistributedSampler(data)
                fixed = DistributedSampler(data, shuffle=False)
                loader = DataLoader(data, sampler=sampler)
                for epoch in range(10):
                    sampler.set_epoch(epoch)
                    for x, y in loader:
                        optimizer.zero_grad()
                        F.cross_entropy(model(x), y).backward()
                        optimizer.step()
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            from torch.utils.data import DataLoader
            from torch.utils.data.distributed import DistributedSampler

            def train(data, model, optimizer):
                sampler = DistributedSampler(data)
                loader = DataLoader(data, sampler=sampler)
                for epoch in range(10):
                    for x, y in loader:
                        optimizer.zero_grad()
                        F.cross_entropy(model(x), y).backward()
                        optimizer.step()
            """,
            at=(5, 14, 5, 38),
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        made = ctx.value(node)
        if not isinstance(made, Object) or made.node is not node or made.type.rpartition(".")[2] != _SAMPLER:
            return
        if not made.type.startswith("torch.") or made.arguments.get("shuffle", 3) not in (None, Constant(True)):
            return
        if ctx.mentions("set_epoch") or not ctx.derived(_trains_for_epochs):
            return
        message = "without set_epoch() this sampler yields the same order in every epoch"
        yield ctx.finding(self, node, message)


def _trains_for_epochs(ctx: Context) -> bool:
    """Say whether the file has a loop that trains within another one."""
    return any(
        isinstance(inner, ast.For) and inner is not loop and trains(inner)
        for loop in ctx.nodes(ast.For)
        for inner in own_nodes(loop)
    )
