"""Rule DG611: a dataset that goes through all its data for each sample."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context, FunctionNode
from drygrad.static.datasets import sample_methods
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Class, Function
from drygrad.static.rules.speed.computed_once import computed_once
from drygrad.static.rules.speed.whole_set import gone_through
from drygrad.static.syntax import own_attributes
from drygrad.static.tree import walk


class WholeSetPerSample(Rule):
    """
    ## What it does
    Finds reductions over a whole dataset (`self.data.mean(0)`, `np.std(self.data)`, `max(self.lengths)`) in its
    `__getitem__`, and in the methods and properties it uses.

    ## Why is this bad?
    The result is the same for every index but is recomputed for every sample: an epoch takes n passes over the whole
    dataset while the GPU waits.

    ## Example
    ```python
    class Signals(Dataset):
        def __init__(self, data):
            self.data = data

        def __getitem__(self, index):
            return (self.data[index] - self.data.mean(0)) / self.data.std(0)
    ```
    Use instead:
    ```python
    class Signals(Dataset):
        def __init__(self, data):
            self.data = (data - data.mean(0)) / data.std(0)

        def __getitem__(self, index):
            return self.data[index]
    ```

    ## Fix safety
    Unsafe: if other code changes the data later, the result no longer follows.
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
        Valid(
            """
            import functools
            import numpy as np

            class Genes(torch.utils.data.Dataset):
                def __init__(self, counts):
                    self.counts = counts
                    self.fit()

                def fit(self):
                    self.mean = self.counts.mean(0)

                @functools.cached_property
                def deviation(self):
                    return np.std(self.counts)

                def __len__(self):
                    return len(self.counts)

                def __getitem__(self, index):
                    if self.mean is None:
                        self.mean = self.counts.mean(0)
                    row = self.counts[index]
                    return (row - self.mean) / self.deviation, np.mean(row)
            """
        ),
        Valid(
            """
            class Views(torch.utils.data.Dataset):
                def __init__(self, paths, weights, scale):
                    self.paths, self.weights, self.scale = paths, weights, scale

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, index):
                    low, high = min(self.scale), max(self.scale)
                    picked = torch.multinomial(self.weights, 1)
                    return self.paths[index], low, high, picked / self.weights.sum()
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
            """
            class Genes(torch.utils.data.Dataset):
                def __init__(self, counts):
                    self.counts = torch.log1p(counts)
                    self.scaled = (self.counts - self.counts.mean(0)) / (self.counts.std(0) + 1e-6)

                def __len__(self):
                    return len(self.counts)

                def __getitem__(self, index):
                    scaled = self.scaled
                    return scaled[index]
            """,
            at=(9, 32, 9, 51),
        ),
        Invalid(
            """
            class Beats(torch.utils.data.Dataset):
                def __init__(self, signals):
                    self.signals = signals

                def __len__(self):
                    return len(self.signals)

                def normalise(self, x):
                    return (x - self.signals.mean()) / self.signals.std()

                def __getitem__(self, index):
                    return self.normalise(self.signals[index])
            """,
            """
            class Beats(torch.utils.data.Dataset):
                def __init__(self, signals):
                    self.signals = signals
                    self.signals_mean = self.signals.mean()
                    self.signals_std = self.signals.std()

                def __len__(self):
                    return len(self.signals)

                def normalise(self, x):
                    return (x - self.signals_mean) / self.signals_std

                def __getitem__(self, index):
                    return self.normalise(self.signals[index])
            """,
            at=(9, 20, 9, 39),
        ),
        Invalid(
            """
            import numpy as np

            class Beats(torch.utils.data.Dataset):
                def __init__(self, signals):
                    self.signals = signals

                def __len__(self):
                    return len(self.signals)

                @property
                def mean(self):
                    return np.mean(self.signals, axis=0)

                def __getitem__(self, index):
                    return self.signals[index] - self.mean
            """,
            """
            import numpy as np

            class Beats(torch.utils.data.Dataset):
                def __init__(self, signals):
                    self.signals = signals
                    self.signals_mean = np.mean(self.signals, axis=0)

                def __len__(self):
                    return len(self.signals)

                @property
                def mean(self):
                    return self.signals_mean

                def __getitem__(self, index):
                    return self.signals[index] - self.mean
            """,
        ),
        Invalid(
            """
            class Beats(torch.utils.data.Dataset):
                def __init__(self, signals):
                    self.signals = signals

                def __len__(self):
                    return len(self.signals)

                def __getitem__(self, index):
                    mean, std = self.signals[:, 0].mean(), torch.std(self.signals, dim=0)
                    return (self.signals[index] - mean) / std
            """,
            """
            class Beats(torch.utils.data.Dataset):
                def __init__(self, signals):
                    self.signals = signals
                    self.signals_std = torch.std(self.signals, dim=0)
                    self.signals_mean = self.signals[:, 0].mean()

                def __len__(self):
                    return len(self.signals)

                def __getitem__(self, index):
                    mean, std = self.signals_mean, self.signals_std
                    return (self.signals[index] - mean) / std
            """,
        ),
        Invalid(
            """
            import numpy as np

            def scaled(x, reference):
                return (x - reference.mean(0)) / reference.std(0)

            class Rows(torch.utils.data.Dataset):
                def __init__(self, rows):
                    self.rows = rows

                def __len__(self):
                    return len(self.rows)

                def __getitem__(self, index):
                    every = np.stack([row["x"] for row in self.rows])
                    return scaled(self.rows[index]["x"], every), max(len(row) for row in self.rows)
            """,
            at=(15, 15, 15, 51),
        ),
        Invalid(
            """
            class Table(torch.utils.data.Dataset):
                def __init__(self, frame):
                    self.frame = frame

                def __len__(self):
                    return len(self.frame)

                def __getitem__(self, index):
                    row = self.frame.iloc[index]
                    return (row["a"] - self.frame["a"].mean()) / self.frame["a"].std()
            """,
            """
            class Table(torch.utils.data.Dataset):
                def __init__(self, frame):
                    self.frame = frame
                    self.frame_mean = self.frame["a"].mean()
                    self.frame_std = self.frame["a"].std()

                def __len__(self):
                    return len(self.frame)

                def __getitem__(self, index):
                    row = self.frame.iloc[index]
                    return (row["a"] - self.frame_mean) / self.frame_std
            """,
        ),
        Invalid(
            """
            class Pages(torch.utils.data.Dataset):
                def __init__(self, pages, tags):
                    self.pages, self.tags = pages, tags

                def __len__(self):
                    return len(self.pages)

                def __getitem__(self, index):
                    classes = sorted(set(self.tags))
                    return self.pages[index], classes.index(self.tags[index])
            """,
            """
            class Pages(torch.utils.data.Dataset):
                def __init__(self, pages, tags):
                    self.pages, self.tags = pages, tags
                    self.classes = sorted(set(self.tags))

                def __len__(self):
                    return len(self.pages)

                def __getitem__(self, index):
                    classes = self.classes
                    return self.pages[index], classes.index(self.tags[index])
            """,
        ),
        Invalid(
            """
            class Beats(torch.utils.data.Dataset):
                def __init__(self, signals):
                    self.signals = signals

                def __len__(self):
                    return len(self.signals)

                def add(self, signals):
                    self.signals = torch.cat([self.signals, signals])

                def __getitem__(self, index):
                    return self.signals[index] / self.signals.std()
            """
        ),
        Invalid(
            """
            class Beats(torch.utils.data.Dataset):
                def __init__(self, signals):
                    self.signals = signals

                def __len__(self):
                    return len(self.signals)

                def __getitem__(self, index):
                    mean = self.signals.mean(0)
                    return mean.sub_(self.signals[index])
            """
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        for method in sample_methods(ctx):
            used = _used(method, ctx)
            held = _held(used, ctx)
            reported: set[ast.stmt] = set()
            found = [entry for function in used for entry in gone_through(function, held, ctx)]
            for part, text in sorted(found, key=lambda entry: (entry[0].lineno, entry[0].col_offset)):
                if ctx.statement(part) in reported or _is_kept(part, ctx):
                    continue
                statement = ctx.statement(part)
                reported.add(statement)
                message = f"{text} is recomputed over the whole dataset for every sample; compute it once in __init__"
                function = ctx.function(part)
                together = [other for other, _ in found if ctx.statement(other) is statement]
                fixes = [computed_once(together, function, ctx)] if function is not None else []
                yield ctx.finding(self, part, message, fixes=fixes)


def _used(method: FunctionNode, ctx: Context) -> list[FunctionNode]:
    """Return a method, and the methods and properties of its class that it uses at every call."""
    owner = next((cls for cls in ctx.classes() if cls.node is ctx.parent(method)), None)
    found, waiting = [method], [method]
    while waiting and owner is not None:
        for node in walk(waiting.pop()):
            match node:
                case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Load()):
                    other = _method(owner, name)
                case _:
                    continue
            if other is not None and other not in found and _is_computed_anew(other):
                found.append(other)
                waiting.append(other)
    return found


def _method(owner: Class, name: str) -> FunctionNode | None:
    member = owner.member(name)
    node = member.node if isinstance(member, Function) else None
    return node if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else None


def _is_computed_anew(function: FunctionNode) -> bool:
    """Say whether a method's body runs each time: decorators but for these may keep its result."""
    names = (dotted_text(decorator) for decorator in function.decorator_list)
    return all(name in ("property", "staticmethod", "torch.no_grad") for name in names)


def _is_kept(node: ast.AST, ctx: Context) -> bool:
    """Say whether a result is stored on the object where it was missing: ``if self.mean is None: self.mean = ...``."""
    statement = ctx.statement(node)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    kept = any((dotted_text(target) or "").startswith("self.") for target in targets)
    return kept and any(isinstance(above, ast.If) for above in ctx.ancestors(statement))


def _held(used: list[FunctionNode], ctx: Context) -> frozenset[str]:
    """Return the attributes that have an entry for each sample: a name picks one, or the length is theirs."""
    owner = ctx.parent(used[0])
    body = owner.body if isinstance(owner, ast.ClassDef) else []
    length = [member for member in body if isinstance(member, ast.FunctionDef) and member.name == "__len__"]
    found = set[str]()
    for node in (node for function in used for node in walk(function)):
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Name()):
                function = ctx.function(node)
                values = _assigned(name, function) if function is not None else ()
                found |= {attribute for value in values for attribute in own_attributes(value)}
            case ast.Subscript(value=value, slice=ast.Name()):
                found.update(own_attributes(value))
            case _:
                pass
    return frozenset(found | {name for member in length for name in own_attributes(member)})


def _assigned(name: str, function: FunctionNode) -> Iterator[ast.expr]:
    """Yield what a function assigns to a name."""
    for node in walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                yield value
            case _:
                pass
