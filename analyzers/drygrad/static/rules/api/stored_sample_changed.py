"""Rule DG803: a dataset that changes the samples it holds."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.model import Finding, Fix, Invalid, Rule, Valid
from drygrad.static.context import Context, FunctionNode
from drygrad.static.datasets import called_by, sample_methods, writes_to
from drygrad.static.facts.values import Mapped, Sequence, Tensor, Value, options_of
from drygrad.static.syntax import block_of, bound_names
from drygrad.static.tree import walk


class StoredSampleChanged(Rule):
    """
    ## What it does
    Finds a `__getitem__` that takes a sample held by the dataset (`x = self.samples[index]`) and modifies it in place,
    directly or with a function of the file that writes to its argument.

    ## Why is this bad?
    The name refers to the stored sample itself, so the change persists and the next epoch augments an augmented sample:
    masks and noise pile up, values are normalized repeatedly, and the data drifts away from what was loaded. Nothing
    raises, and the first epoch looks right. With workers, each modifies its own copy of the dataset, and unless workers
    are persistent, the next epoch starts from the original again.

    ## Example
    ```python
    class Spectra(Dataset):
        def __init__(self, n):
            self.specs = torch.randn(n, 100)

        def __getitem__(self, index):
            spec = self.specs[index]
            spec[:10] = 0
            return spec
    ```
    Use instead:
    ```python
    class Spectra(Dataset):
        def __init__(self, n):
            self.specs = torch.randn(n, 100)

        def __getitem__(self, index):
            spec = self.specs[index].clone()
            spec[:10] = 0
            return spec
    ```

    ## Fix safety
    Unsafe: the data of each epoch changes.
    """

    code, name, since = "DG803", "stored-sample-changed", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            class Extended(torch.utils.data.Dataset):
                def __init__(self, samples, extra, key):
                    self.samples = [dict(sample) for sample in samples]
                    self.extra, self.key = extra, key

                def __len__(self):
                    return len(self.samples)

                def __getitem__(self, index):
                    sample = self.samples[index]
                    sample[self.key] = self.extra[index]
                    return sample
            """
        ),
        Valid(
            """
            class Specs(torch.utils.data.Dataset):
                def __init__(self, specs):
                    self.specs = [s / s.std() for s in specs]
                    self.paths = list(specs)

                def __len__(self):
                    return len(self.specs)

                def __getitem__(self, index):
                    spec = self.specs[index].clone()
                    spec[:10] = 0
                    other = self.specs[index]
                    other = other * 2
                    other[0] = 1
                    return spec, other
            """
        ),
        Valid(
            """
            class Fetched(torch.utils.data.Dataset):
                def __init__(self, source):
                    self.source = source
                    self.samples = [{"path": p} for p in source]

                def __len__(self):
                    return 8

                def __getitem__(self, index):
                    item = self.source[index]
                    item[0] = 1
                    sample = self.samples[index]
                    sample["image"] = load(sample["path"])
                    return item, sample
            """
        ),
        Valid(
            """
            class Window(torch.utils.data.Dataset):
                def __init__(self, n):
                    self.x = torch.randn(n, 4)

                def __len__(self):
                    return len(self.x)

                def __getitem__(self, index):
                    rows = self.x[[index, index + 1]]
                    rows[0] = 1
                    return rows
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            class Mask(nn.Module):
                def forward(self, spec):
                    spec[:10] = 0
                    return spec

            class Specs(torch.utils.data.Dataset):
                def __init__(self, specs, augment=None):
                    self.specs = [s / s.std() for s in specs]
                    self.augment = augment

                def __len__(self):
                    return len(self.specs)

                def __getitem__(self, index):
                    spec = self.specs[index]
                    if self.augment is not None:
                        spec = self.augment(spec)
                    return spec

            data = [torch.randn(20, 20) for _ in range(8)]
            train, test = Specs(data, Mask()), Specs(data)
            """,
            """
            class Mask(nn.Module):
                def forward(self, spec):
                    spec[:10] = 0
                    return spec

            class Specs(torch.utils.data.Dataset):
                def __init__(self, specs, augment=None):
                    self.specs = [s / s.std() for s in specs]
                    self.augment = augment

                def __len__(self):
                    return len(self.specs)

                def __getitem__(self, index):
                    spec = self.specs[index].clone()
                    if self.augment is not None:
                        spec = self.augment(spec)
                    return spec

            data = [torch.randn(20, 20) for _ in range(8)]
            train, test = Specs(data, Mask()), Specs(data)
            """,
            at=(15, 15, 15, 32),
        ),
        Invalid(
            """
            class Noisy(torch.utils.data.Dataset):
                def __init__(self, n):
                    self.x = torch.randn(n, 4)

                def __len__(self):
                    return len(self.x)

                def __getitem__(self, index):
                    x = self.x[index]
                    x += 0.1 * torch.randn(4)
                    return x
            """,
            """
            class Noisy(torch.utils.data.Dataset):
                def __init__(self, n):
                    self.x = torch.randn(n, 4)

                def __len__(self):
                    return len(self.x)

                def __getitem__(self, index):
                    x = self.x[index].clone()
                    x += 0.1 * torch.randn(4)
                    return x
            """,
        ),
        Invalid(
            """
            class Pairs(torch.utils.data.Dataset):
                def __init__(self, pairs, transform):
                    self.samples = [{"image": a, "label": b} for a, b in pairs]
                    self.transform = transform

                def __len__(self):
                    return len(self.samples)

                def __getitem__(self, index):
                    sample = self.samples[index]
                    sample["image"] = self.transform(sample["image"])
                    return sample
            """,
            """
            class Pairs(torch.utils.data.Dataset):
                def __init__(self, pairs, transform):
                    self.samples = [{"image": a, "label": b} for a, b in pairs]
                    self.transform = transform

                def __len__(self):
                    return len(self.samples)

                def __getitem__(self, index):
                    sample = dict(self.samples[index])
                    sample["image"] = self.transform(sample["image"])
                    return sample
            """,
        ),
    ]

    def visit_module(self, node: ast.Module, ctx: Context) -> Iterator[Finding]:
        for method in sample_methods(ctx):
            for statement in walk(method):
                match statement:
                    case ast.Assign(
                        targets=[ast.Name(id=name)],
                        value=ast.Subscript(value=ast.Attribute(value=ast.Name(id="self")) as store) as taken,
                    ) if _is_one(taken.slice, method) and _holds(ctx.value(store)):
                        write = _change(name, statement, ctx)
                        if write is not None:
                            yield self._of(taken, write, ctx)
                    case _:
                        pass

    def _of(self, taken: ast.Subscript, write: ast.AST, ctx: Context) -> Finding:
        is_entry = isinstance(write, ast.Assign)
        text = ctx.source_of(taken)
        fixed = f"dict({text})" if is_entry else f"{text}.clone()"
        fix: Fix | None = ctx.fix("Modify a copy", ctx.replace(taken, fixed))
        message = "this modifies the dataset's stored sample in place; the next epoch sees the modified one"
        return ctx.finding(self, taken, message, related=[("modified here", write)], fixes=[fix])  # pyright: ignore[reportArgumentType]


def _is_one(index: ast.expr, method: FunctionNode) -> bool:
    """Say whether a subscript takes one sample: by the method's own index, or by a number."""
    names = {parameter.arg for parameter in method.args.args[1:]}
    return isinstance(index, ast.Name) and index.id in names


def _holds(store: Value) -> bool:
    """Say whether an attribute holds samples in memory: a list, a dict or a tensor."""
    return all(
        isinstance(option, (Tensor, Mapped)) or (isinstance(option, Sequence) and option.kind == "list")
        for option in options_of(store)
    )


def _change(name: str, taken: ast.Assign, ctx: Context) -> ast.AST | None:
    """Return where the sample is changed in place, before the name stands for anything else."""
    block = block_of(ctx, taken)
    for statement in block[block.index(taken) + 1 :]:
        for node in walk(statement):
            if _changes(node, name, ctx):
                return node
        if name in bound_names(statement):
            return None
    return None


def _changes(node: ast.AST, name: str, ctx: Context) -> bool:
    match node:
        case ast.AugAssign(target=ast.Name(id=target)):
            return target == name and ctx.tensor(node.target) is not None
        case ast.AugAssign(target=ast.Subscript(value=ast.Name(id=target))):
            return target == name
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=target), slice=ast.Constant(value=str(key)))]):
            return target == name and _reads_entry(node.value, name, key)
        case ast.Subscript(ctx=ast.Store(), slice=ast.Name() | ast.Attribute()):
            return not _is_repeatable(node, name, ctx) and writes_to(name, [ast.Expr(node)]) is node
        case ast.Call():
            return _is_changed_by(node, name, ctx)
        case ast.stmt():
            return False
        case _:
            return isinstance(node, ast.expr) and writes_to(name, [ast.Expr(node)]) is node


def _reads_entry(value: ast.expr, name: str, key: str) -> bool:
    """Say whether an entry is computed of what it was: done again, it changes again."""
    return any(
        isinstance(n, ast.Subscript)
        and isinstance(n.value, ast.Name)
        and n.value.id == name
        and isinstance(n.slice, ast.Constant)
        and n.slice.value == key
        for n in walk(value)
    )


def _is_repeatable(entry: ast.Subscript, name: str, ctx: Context) -> bool:
    """Say whether an entry is given what nothing of the sample tells: done again, it stays as it is."""
    statement = ctx.parent(entry)
    if not isinstance(statement, ast.Assign):
        return False
    return not any(isinstance(n, ast.Name) and n.id == name for n in walk(statement.value))


def _is_changed_by(node: ast.Call, name: str, ctx: Context) -> bool:
    if writes_to(name, [ast.Expr(node)]) is node:
        return True
    positions = [i for i, argument in enumerate(node.args) if isinstance(argument, ast.Name) and argument.id == name]
    return any(
        writes_to(parameters[i], function.body) is not None
        for function, parameters in called_by(node, ctx)
        for i in positions
        if i < len(parameters)
    )
