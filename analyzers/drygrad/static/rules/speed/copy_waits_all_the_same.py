"""Rule DG617: non_blocking copies from memory that is not pinned."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.editing import with_keyword
from drygrad.static.facts.values import Constant, Object, options_of
from drygrad.static.loaders import LOADER
from drygrad.static.syntax import bound_names, calls_in
from drygrad.static.tree import walk


class CopyWaitsAllTheSame(Rule):
    """
    ## What it does
    Finds loops over a `DataLoader` without `pin_memory=True` whose batches are copied to the GPU with
    `non_blocking=True`.

    ## Why is this bad?
    Only copies from pinned memory overlap with the CPU. From pageable memory, the CPU first copies the data into a CUDA
    staging buffer and continues when that is done, so `non_blocking` only saves the wait for the last chunk. With
    `pin_memory=True` the loader pins its batches in a separate thread.

    ## Example
    ```python
    loader = DataLoader(data, batch_size=64)
    for x, y in loader:
        x = x.to(device, non_blocking=True)
    ```
    Use instead:
    ```python
    loader = DataLoader(data, batch_size=64, pin_memory=True)
    for x, y in loader:
        x = x.to(device, non_blocking=True)
    ```

    ## Fix safety
    Unsafe: pinned memory cannot be swapped out, and there must be enough of it.
    """

    code, name, since = "DG617", "copy-waits-all-the-same", "0.1"
    severity = "info"
    VALID = [
        Valid(
            """
            from torch.utils.data import DataLoader, TensorDataset

            def main(data: TensorDataset, device, pin):
                for x in DataLoader(data, pin_memory=True):
                    x = x.to(device, non_blocking=True)
                for x in DataLoader(data, pin_memory=pin):
                    x = x.to(device, non_blocking=True)
                for x in DataLoader(data):
                    x = x.to(device)
                for x in DataLoader(data):
                    x = x.pin_memory().to(device, non_blocking=True)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            from torch.utils.data import DataLoader, TensorDataset

            def main(data: TensorDataset):
                device = torch.device("cuda")
                loader = DataLoader(data, batch_size=64, shuffle=True)
                for x, y in loader:
                    x = x.to(device, non_blocking=True)
                    y = y.to(device, non_blocking=True)
                    print(x, y)
            """,
            """
            from torch.utils.data import DataLoader, TensorDataset

            def main(data: TensorDataset):
                device = torch.device("cuda")
                loader = DataLoader(data, batch_size=64, shuffle=True, pin_memory=True)
                for x, y in loader:
                    x = x.to(device, non_blocking=True)
                    y = y.to(device, non_blocking=True)
                    print(x, y)
            """,
            at=(5, 13, 5, 58),
        ),
    ]

    def visit_loop(self, node: ast.For, ctx: Context) -> Iterator[Finding]:
        copies = [call for call in calls_in(node) if _copies(call, ctx)]
        if not copies or "pin_memory()" in ctx.source_of(node):
            return
        loader = _loader_of(node.iter, ctx)
        if loader is None or loader.node is None:
            return
        pinned = loader.arguments.get("pin_memory", 7)
        names = bound_names(node.target)
        of_batch = [c for c in copies if names & {n.id for n in walk(c.func) if isinstance(n, ast.Name)}]
        if of_batch and pinned in (None, Constant(False)) and isinstance(loader.node, ast.Call):
            message = "copying from unpinned memory blocks the CPU, even with non_blocking=True"
            related = [("the copy that should be asynchronous", of_batch[0])]
            yield ctx.finding(self, loader.node, message, related=related, fixes=[_fix(loader.node, ctx)])


def _copies(call: ast.Call, ctx: Context) -> bool:
    moves = isinstance(call.func, ast.Attribute) and call.func.attr in ("to", "cuda")
    return moves and any(k.arg == "non_blocking" and ctx.value(k.value) == Constant(True) for k in call.keywords)


def _loader_of(source: ast.expr, ctx: Context) -> Object | None:
    """Return the loader that a loop goes through, also where ``enumerate`` or a progress bar counts its batches."""
    while isinstance(source, ast.Call) and source.args and not isinstance(ctx.value(source), Object):
        source = source.args[0]
    options = options_of(ctx.value(source))
    loaders = [option for option in options if isinstance(option, Object) and option.type == LOADER]
    return loaders[0] if len(loaders) == 1 and len(list(options)) == 1 else None


def _fix(loader: ast.Call, ctx: Context) -> Fix | None:
    return ctx.fix("Pass `pin_memory=True`", with_keyword(ctx, loader, "pin_memory", "True"))
