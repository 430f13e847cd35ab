"""Rule DG611: a dataset that goes through all its data for each sample."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context, FunctionNode
from drygrad.static.datasets import sample_methods
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Class, Function, Number, Object
from drygrad.static.tree import walk

_GOES_THROUGH = frozenset(
    "mean std var sum min max amin amax median quantile norm sort argsort unique cumsum logsumexp prod nanmean nanstd "
    "std_mean var_mean aminmax percentile nanmin nanmax value_counts describe bincount".split()
)
_LIBRARIES = ("torch.", "numpy.")
_BUILTIN = frozenset({"sorted", "sum", "min", "max", "set"})


class WholeSetPerSample(Rule):
    """
    ## What it does
    Finds reductions of everything that a dataset holds (`self.data.mean(0)`, `np.std(self.data)`, `max(self.lengths)`)
    in its `__getitem__`, and in the methods and properties that it uses.

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
                def __init__(self, paths, weights):
                    self.paths, self.weights, self.scale = paths, weights, (0.5, 2.0)

                def __len__(self):
                    return len(self.paths)

                def __getitem__(self, index):
                    low, high = min(self.scale), max(self.scale)
                    picked = torch.multinomial(self.weights, 1)
                    return self.paths[index], low, high, picked
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
                    mean, std = self.signals[:, 0].mean(), torch.std(self.signals, dim=0)
                    return (self.signals[index] - mean) / std
            """
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
            """
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        for method in sample_methods(ctx):
            owner = ctx.parent(method)
            held = _indexed(method) if isinstance(owner, ast.ClassDef) else frozenset[str]()
            reported: set[ast.stmt] = set()
            parts = [p for function in _used(method, ctx) for p in walk(function) if isinstance(p, ast.Call)]
            for part in sorted(parts, key=lambda call: (call.lineno, call.col_offset)):
                whole = _reduced(part, held, ctx)
                if whole is None or ctx.statement(part) in reported or _is_kept(part, ctx):
                    continue
                reported.add(ctx.statement(part))
                text = ctx.source_of(whole)
                message = f"all of {text} is gone through anew for each sample: compute this once, in __init__"
                yield ctx.finding(self, part, message)


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


def _indexed(method: FunctionNode) -> frozenset[str]:
    """Return the attributes of which a sample's index picks a part: what the dataset holds of each sample."""
    names = [argument.arg for argument in method.args.args][1:2]
    found = set[str]()
    for node in walk(method):
        match node:
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id="self"), attr=name), slice=ast.Name(id=index)):
                if index in names:
                    found.add(name)
            case _:
                pass
    return frozenset(found)


def _is_kept(node: ast.AST, ctx: Context) -> bool:
    """Say whether a result is stored on the object where it was missing: ``if self.mean is None: self.mean = ...``."""
    statement = ctx.statement(node)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    kept = any((dotted_text(target) or "").startswith("self.") for target in targets)
    return kept and any(isinstance(above, ast.If) for above in ctx.ancestors(statement))


def _reduced(node: ast.Call, held: frozenset[str], ctx: Context) -> ast.expr | None:
    """Return the attribute of the dataset that a call reduces as a whole; None for other nodes."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=[argument]):
            # what Python goes through may be a pair of bounds: it counts where a sample's index picks a part of it
            whole = _whole(argument) if name in _BUILTIN else None
            return whole if whole is not None and whole.attr in held else None
        case ast.Call(func=ast.Attribute(value=receiver, attr=name)) if name in _GOES_THROUGH:
            called = ctx.name(node.func) or ""
            argument = node.args[0] if called.startswith(_LIBRARIES) and node.args else receiver
            whole = _whole(argument)
        case _:
            return None
    if whole is None or isinstance(ctx.value(whole), (Object, Number)):
        return None
    return whole


def _whole(node: ast.expr) -> ast.Attribute | None:
    """Return the attribute that an expression is, or is a column of: ``self.data[:, 0]``."""
    match node:
        case ast.Subscript(value=inner, slice=ast.Tuple(elts=[ast.Slice(lower=None, upper=None, step=None), *_])):
            return _whole(inner)
        case ast.Attribute(value=ast.Name(id="self")):
            return node
        case _:
            return None
