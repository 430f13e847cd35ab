"""Rule DG614: the same file, read again for each sample or each step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context, FunctionNode
from drygrad.static.datasets import sample_methods
from drygrad.static.editing import inserted
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Function
from drygrad.static.loops import is_guarded, is_step_loop
from drygrad.static.rules.speed.computed_once import computed_once
from drygrad.static.rules.speed.gathering import changes
from drygrad.static.syntax import assigned_in, bound_names, nodes_within, parameter_names
from drygrad.static.tree import walk

_READERS = frozenset(
    {
        "torch.load",
        "numpy.load",
        "numpy.loadtxt",
        "numpy.genfromtxt",
        "numpy.fromfile",
        "pandas.read_csv",
        "pandas.read_table",
        "pandas.read_parquet",
        "pandas.read_pickle",
        "pandas.read_json",
        "pandas.read_excel",
        "pandas.read_feather",
        "scipy.io.loadmat",
        "joblib.load",
        "safetensors.torch.load_file",
    }
)
_PARSERS = frozenset({"json.load", "pickle.load", "yaml.safe_load", "csv.reader", "csv.DictReader"})
_MAPPED = frozenset({"mmap_mode", "mmap", "chunksize", "iterator", "skiprows", "nrows", "offset", "count"})
_OPENS = frozenset({"open", "gzip.open", "bz2.open", "lzma.open"})
_CALLED = frozenset({"forward", "training_step", "validation_step"})


class FileReadAnew(Rule):
    """
    ## What it does
    Finds files that are read completely in a dataset's `__getitem__`, in a module's `forward`, or in every step of a
    training loop, although the path is always the same.

    ## Why is this bad?
    The whole file is read and decoded for a single row: an epoch reads it once per sample while the GPU waits. If the
    file is too large to keep in memory, `np.load(path, mmap_mode="r")` reads only what is accessed.

    ## Example
    ```python
    class Signals(Dataset):
        def __init__(self, path):
            self.path = path

        def __getitem__(self, index):
            signals = np.load(self.path)
            return torch.from_numpy(signals[index])
    ```
    Use instead:
    ```python
    class Signals(Dataset):
        def __init__(self, path):
            self.signals = np.load(path)

        def __getitem__(self, index):
            return torch.from_numpy(self.signals[index])
    ```

    ## Fix safety
    Unsafe: later changes to the file are not seen, and each process keeps what it has read.
    """

    code, name, since = "DG614", "file-read-anew", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            import json
            import numpy as np
            from torch.utils.data import Dataset

            class Clips(Dataset):
                def __init__(self, root, files):
                    self.root, self.files, self.table = root, files, None
                    self.labels = json.load(open(root / "labels.json"))

                def __len__(self):
                    return len(self.files)

                def __getitem__(self, index):
                    if self.table is None:
                        self.table = np.load(self.root / "table.npy")
                    rows = np.load(self.root / "rows.npy", mmap_mode="r")
                    clip = np.load(self.files[index])
                    other = torch.load(f"{self.root}/{index}.pt")
                    return clip, other, rows[index], self.table[index]
            """
        ),
        Valid(
            """
            def train(model, loader, optimizer, path):
                weights = torch.load(path)
                for step, (x, y) in enumerate(loader):
                    F.cross_entropy(model(x), y, weights).backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    if step % 1000 == 0:
                        weights = torch.load(path)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import numpy as np
            from torch.utils.data import Dataset

            class Recordings(Dataset):
                def __init__(self, path, length):
                    self.path, self.length = path, length

                def __len__(self):
                    return self.length

                def __getitem__(self, index):
                    signals = np.load(self.path)
                    return torch.from_numpy(signals[index])
            """,
            """
            import numpy as np
            from torch.utils.data import Dataset

            class Recordings(Dataset):
                def __init__(self, path, length):
                    self.path, self.length = path, length
                    self.signals = np.load(self.path)

                def __len__(self):
                    return self.length

                def __getitem__(self, index):
                    signals = self.signals
                    return torch.from_numpy(signals[index])
            """,
            at=(12, 18, 12, 36),
        ),
        Invalid(
            """
            import json
            import os
            from torch.utils.data import Dataset

            class Captions(Dataset):
                def __init__(self, root, files):
                    self.root, self.files = root, files

                def __len__(self):
                    return len(self.files)

                def caption(self, name):
                    path = os.path.join(self.root, "captions.json")
                    with open(path) as file:
                        return json.load(file)[name]

                def __getitem__(self, index):
                    return torch.load(self.files[index]), self.caption(self.files[index])
            """,
            at=(14, 13, 14, 23),
        ),
        Invalid(
            """
            def train(model, loader, optimizer):
                for x, y in loader:
                    weights = torch.load("weights.pt")
                    F.cross_entropy(model(x), y, weights).backward()
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            """
            def train(model, loader, optimizer):
                weights = torch.load("weights.pt")
                for x, y in loader:
                    F.cross_entropy(model(x), y, weights).backward()
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            at=(3, 18, 3, 42),
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        reported: set[ast.AST] = set()
        for function, what in _repeated(ctx):
            varies = _parameters(function)
            for call in nodes_within(function):
                read = _read(call, ctx) if isinstance(call, ast.Call) else None
                if read is None or read[0] in reported or is_guarded(call, function, ctx):
                    continue
                place, path = read
                if _stays_the_same(path, function, varies, ctx, frozenset()):
                    reported.add(place)
                    message = f"{ctx.source_of(path)} is read in full again {what}; read it once and keep it"
                    fixes = [computed_once([place], function, ctx)]
                    yield ctx.finding(self, place, message, fixes=fixes)

    def visit_loop(self, node: ast.For | ast.While, ctx: Context) -> Iterator[Finding]:
        if not is_step_loop(node, ctx):
            return
        bound = bound_names(node)
        for call in nodes_within(node):
            read = _read(call, ctx) if isinstance(call, ast.Call) else None
            if read is None or is_guarded(call, node, ctx) or ctx.loops(call)[:1] != [node]:
                continue
            place, path = read
            names = {n.id for n in walk(path) if isinstance(n, ast.Name)}
            if not names & bound and not any(isinstance(n, ast.Call) and not _joins(n, ctx) for n in walk(path)):
                message = f"{ctx.source_of(path)} is read in full again in every step; read it once, before the loop"
                fixes = [_before(node, place, ctx)]
                yield ctx.finding(self, place, message, fixes=fixes)


def _before(loop: ast.For | ast.While, read: ast.expr, ctx: Context) -> Fix | None:
    """Read before the loop, where the loop only binds a name to what is read, and writes into nothing of that name."""
    statement = ctx.statement(read)
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is read and statement in loop.body:
            bound = [n for n in walk(loop) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store)]
        case _:
            return None
    if len(bound) > 1 or changes(loop, name):
        return None
    line = inserted(ctx, loop, ctx.source_of(statement))
    return ctx.fix("Read it once, before the loop", line, ctx.delete_statement(statement))


def _repeated(ctx: Context) -> Iterator[tuple[FunctionNode, str]]:
    """Yield the functions that run for each sample or batch, and the methods that they call, with what they are."""
    for method in sample_methods(ctx):
        yield from ((function, "for every sample") for function in _with_helpers(method, ctx))
    for cls in ctx.classes():
        if ctx.is_module_class(cls.node):
            for name in _CALLED:
                member = cls.members.get(name)
                if isinstance(member, Function) and isinstance(member.node, ast.FunctionDef):
                    yield from ((function, "on every call") for function in _with_helpers(member.node, ctx))


def _with_helpers(method: FunctionNode, ctx: Context) -> Iterator[FunctionNode]:
    """Yield a method, and those of its class that it calls unconditionally, unless they remember what they return."""
    yield method
    owner = ctx.parent(method)
    cls = ctx.class_of(owner) if isinstance(owner, ast.ClassDef) else None
    for call in nodes_within(method):
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)) if cls is not None:
                member = cls.member(name)
            case _:
                continue
        helper = member.node if isinstance(member, Function) else None
        if isinstance(helper, ast.FunctionDef) and not helper.decorator_list and not is_guarded(call, method, ctx):
            yield helper


def _parameters(function: FunctionNode) -> frozenset[str]:
    return frozenset(parameter_names(function)) - {"self"}


def _read(call: ast.Call, ctx: Context) -> tuple[ast.expr, ast.expr] | None:
    """Return what reads a whole file, and the path; for a parser, where its file is opened."""
    name = ctx.name(call.func)
    if not call.args or any(keyword.arg in _MAPPED or keyword.arg is None for keyword in call.keywords):
        return None
    source = call.args[0]
    if name in _READERS:
        return call, source
    if name not in _PARSERS:
        return None
    opened = _opening(source, ctx)
    return (opened, opened.args[0]) if opened is not None else None


def _opening(file: ast.expr, ctx: Context) -> ast.Call | None:
    """Return the call that opens a file, as it is or as a ``with`` statement around has bound it."""
    if isinstance(file, ast.Call):
        return file if _opens(file, ctx) and file.args else None
    for ancestor in ctx.ancestors(file):
        if isinstance(ancestor, ast.With):
            for item in ancestor.items:
                bound = isinstance(item.optional_vars, ast.Name) and isinstance(file, ast.Name)
                if bound and item.optional_vars.id == file.id and isinstance(item.context_expr, ast.Call):  # pyright: ignore
                    return item.context_expr if _opens(item.context_expr, ctx) and item.context_expr.args else None
        if isinstance(ancestor, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return None
    return None


def _opens(call: ast.Call, ctx: Context) -> bool:
    return (ctx.name(call.func) or "").removeprefix("builtins.") in _OPENS


def _joins(call: ast.Call, ctx: Context) -> bool:
    name = ctx.name(call.func) or ""
    return name.startswith(("os.path.", "pathlib.")) or name in ("builtins.str", "os.fspath")


def _stays_the_same(
    path: ast.expr, function: FunctionNode, varies: frozenset[str], ctx: Context, followed: frozenset[str]
) -> bool:
    """Say whether a path is made of literals, attributes of ``self`` and names of the file alone."""
    written = {name for name, _ in assigned_in(function)}
    for node in walk(path):
        match node:
            case ast.Call() if not _joins(node, ctx):
                return False
            case ast.Subscript():
                return False
            case ast.Attribute() if dotted_text(node) in written:
                return False
            case ast.Name(id=name) if name in varies or name in followed:
                return False
            case ast.Name(id=name) if name in written:
                bound = [s for n, s in assigned_in(function) if n == name]
                value = bound[0].value if len(bound) == 1 and isinstance(bound[0], ast.Assign) else None
                if value is None or not _stays_the_same(value, function, varies, ctx, followed | {name}):
                    return False
            case ast.Lambda() | ast.NamedExpr() | ast.Await() | ast.ListComp():
                return False
            case _:
                pass
    return True
