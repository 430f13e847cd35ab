"""Rule DG732: a stream of samples that each worker goes through as a whole."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Position, Rule, Span, Valid
from drygrad.static.context import Context
from drygrad.static.facts.values import Class, Function
from drygrad.static.loaders import dataset_of, has_several_workers, loader_made_by, names_used, workers_of
from drygrad.static.tree import walk

_STREAMS = ("torch.utils.data.IterableDataset", "torch.utils.data.dataset.IterableDataset")
_SPLITS = re.compile(r"worker|shard|rank|rand|sample|islice", re.I)


class StreamNotSplit(Rule):
    """
    ## What it does
    Finds an `IterableDataset` whose `__iter__` yields the same data in every worker, in a file whose `DataLoader` uses
    several workers.

    ## Why is this bad?
    Each worker has a copy of the dataset and runs its whole `__iter__`: with four workers, every sample occurs four
    times per epoch. Nothing raises; epochs are longer, and a validation set counts its samples several times.
    `get_worker_info()` returns the worker's number and how many there are, so that each can take its own part.

    ## Example
    ```python
    class Lines(IterableDataset):
        def __init__(self, lines):
            self.lines = lines

        def __iter__(self):
            yield from self.lines


    loader = DataLoader(Lines(lines), num_workers=4)
    ```
    Use instead:
    ```python
    class Lines(IterableDataset):
        def __init__(self, lines):
            self.lines = lines

        def __iter__(self):
            info = torch.utils.data.get_worker_info()
            first, step = (info.id, info.num_workers) if info else (0, 1)
            yield from itertools.islice(self.lines, first, None, step)


    loader = DataLoader(Lines(lines), num_workers=4)
    ```

    ## Fix safety
    No fix: how the data is split depends on where it comes from.
    """

    code, name, since = "DG732", "stream-not-split", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            import itertools
            from torch.utils.data import DataLoader, IterableDataset, get_worker_info

            class Lines(IterableDataset):
                def __init__(self, lines):
                    self.lines = lines

                def __iter__(self):
                    info = get_worker_info()
                    first, step = (info.id, info.num_workers) if info else (0, 1)
                    yield from itertools.islice(self.lines, first, None, step)

            class Endless(IterableDataset):
                def __iter__(self):
                    while True:
                        yield torch.randn(4)

            class Whole(IterableDataset):
                def __init__(self, lines):
                    self.lines = lines

                def __iter__(self):
                    return iter(self.lines)

            def loaders(lines):
                yield DataLoader(Lines(lines), num_workers=4)
                yield DataLoader(Endless(), num_workers=4)
                yield DataLoader(Whole(lines))
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            from torch.utils.data import DataLoader, IterableDataset

            class Lines(IterableDataset):
                def __init__(self, path):
                    self.path = path

                def __iter__(self):
                    with open(self.path) as file:
                        for line in file:
                            yield torch.tensor([float(v) for v in line.split(",")])

            def main():
                loader = DataLoader(Lines("rows.csv"), batch_size=4, num_workers=4)
                for batch in loader:
                    print(batch)
            """,
            at=(7, 8, 7, 16),
        ),
        Invalid(
            """
            from torch.utils.data import DataLoader, IterableDataset

            class Rows(IterableDataset):
                def __init__(self, rows):
                    self.rows = rows

                def __iter__(self):
                    return iter(self.rows)

            loader = DataLoader(Rows(torch.arange(8)), num_workers=2)
            """,
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        loader = loader_made_by(node, ctx)
        if loader is None or not has_several_workers(loader.arguments):
            return
        cls = dataset_of(loader.arguments)
        member = cls.member("__iter__") if cls is not None and cls.derives_from(*_STREAMS) else None
        if cls is None or not isinstance(member, Function) or not isinstance(member.node, ast.FunctionDef):
            return
        if not _is_the_same_throughout(cls, member.node):
            return
        workers = workers_of(loader.arguments)
        message = f"each of the {workers} workers iterates over all of this, so every sample appears {workers} times"
        start = ctx.source.start(member.node)
        name = Position(start.line, start.column + len("def "))
        yield ctx.finding(
            self,
            member.node,
            message,
            related=[("the loader with workers is created here", node)],
            span=Span(name, Position(name.line, name.column + len("__iter__"))),
        )


def _is_the_same_throughout(cls: Class, method: ast.FunctionDef) -> bool:
    """Say whether a method goes through data that have an end, and nothing in its class divides or draws them."""
    if any(_SPLITS.search(name) for name in names_used(cls)):
        return False
    nodes = list(walk(method))
    if any(isinstance(node, ast.While) for node in nodes):
        return False
    return any(isinstance(node, (ast.For, ast.YieldFrom, ast.Return)) for node in nodes)
