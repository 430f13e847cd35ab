"""Rule DG810: a loader of the whole dataset, or of the training set, where a part was made for it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.model import Finding, Invalid, Rule, Valid
from drygrad.static.context import Context
from drygrad.static.facts.frame import dotted_text
from drygrad.static.syntax import argument, assigned_in, own_nodes, scope_of

_SPLIT = frozenset({"torch.utils.data.random_split", "torch.utils.data.dataset.random_split"})
_LOADER = frozenset({"torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"})
_EVALUATION = re.compile(r"(^|_)(val|valid|validation|test|dev)(?=_|$|loader|set|data)", re.I)
_TRAINING = re.compile(r"(^|_)train(ing)?(?=_|$|loader|set|data)", re.I)


class SplitNotUsed(Rule):
    """
    ## What it does
    Finds a `DataLoader` over the dataset that `random_split` has just split while the training part is never used; and
    a `val_loader` over `train_set` while `val_set` is never used.

    ## Why is this bad?
    The model is evaluated on samples it was trained on: the metric looks excellent and means nothing.

    ## Example
    ```python
    train_set, val_set = random_split(dataset, [0.8, 0.2])
    train_loader = DataLoader(dataset, shuffle=True)
    ```
    Use instead:
    ```python
    train_set, val_set = random_split(dataset, [0.8, 0.2])
    train_loader = DataLoader(train_set, shuffle=True)
    ```

    ## Fix safety
    Unsafe: it changes which samples are used.
    """

    code, name, since = "DG810", "split-not-used", "0.1"
    severity = "warning"
    VALID = [
        Valid(
            """
            from torch.utils.data import DataLoader, random_split

            def loaders(dataset):
                train_set, val_set = random_split(dataset, [0.8, 0.2])
                everything = DataLoader(dataset)
                return DataLoader(train_set), DataLoader(val_set), everything
            """
        ),
        Valid(
            """
            from torch.utils.data import DataLoader

            def loaders(train_set, val_set):
                train_loader = DataLoader(train_set, shuffle=True)
                val_loader = DataLoader(val_set)
                train_eval_loader = DataLoader(train_set)
                return train_loader, val_loader, train_eval_loader
            """
        ),
        Valid(
            """
            from torch.utils.data import DataLoader, TensorDataset

            train_set = TensorDataset(x)
            test_loader = DataLoader(train_set)
            """
        ),
    ]
    INVALID = [
        Invalid(
            """
            import torch
            from torch.utils.data import DataLoader, random_split

            def loaders(dataset):
                train_set, val_set = random_split(dataset, [0.8, 0.2])
                return DataLoader(dataset, shuffle=True), DataLoader(val_set)
            """,
            """
            import torch
            from torch.utils.data import DataLoader, random_split

            def loaders(dataset):
                train_set, val_set = random_split(dataset, [0.8, 0.2])
                return DataLoader(train_set, shuffle=True), DataLoader(val_set)
            """,
            at=(6, 22, 6, 29),
        ),
        Invalid(
            """
            from torch.utils.data import DataLoader, TensorDataset

            train_ds, val_ds = TensorDataset(x), TensorDataset(y)
            train_loader = DataLoader(train_ds, shuffle=True)
            val_loader = DataLoader(train_ds)
            """,
            """
            from torch.utils.data import DataLoader, TensorDataset

            train_ds, val_ds = TensorDataset(x), TensorDataset(y)
            train_loader = DataLoader(train_ds, shuffle=True)
            val_loader = DataLoader(val_ds)
            """,
        ),
    ]

    def visit_call(self, node: ast.Call, ctx: Context) -> Iterator[Finding]:
        if ctx.name(node.func) not in _LOADER:
            return
        given = argument(node, "dataset", 0)
        text = dotted_text(given) if given is not None else None
        if given is None or text is None:
            return
        better = self._part_of(text, node, ctx) or self._other_set(text, node, ctx)
        if better is not None:
            name, made, why = better
            fix = ctx.fix(f"Load `{name}`", ctx.replace(given, name))
            yield ctx.finding(
                self, given, f"{why}; {name} is created but never used", related=[("here", made)], fixes=[fix]
            )

    def _part_of(self, text: str, node: ast.Call, ctx: Context) -> tuple[str, ast.stmt, str] | None:
        """Return the part for training that was split off, where nothing uses it."""
        for statement in own_nodes(*getattr(scope_of(node, ctx), "body", ())):
            match statement:
                case ast.Assign(targets=[ast.Tuple(elts=[first, *_])], value=ast.Call(func=function, args=[whole, *_])):
                    name = dotted_text(first)
                    if ctx.name(function) not in _SPLIT or dotted_text(whole) != text or name is None:
                        continue
                case _:
                    continue
            is_before = statement.lineno < node.lineno
            if is_before and not name.startswith("_") and not _is_read(name, ctx):
                return name, statement, f"{text} still holds the samples of both splits"
        return None

    def _other_set(self, text: str, node: ast.Call, ctx: Context) -> tuple[str, ast.stmt, str] | None:
        """Return the set for evaluation, where nothing uses it and a loader for evaluation takes the other."""
        statement = ctx.statement(node)
        target = statement.targets[0] if isinstance(statement, ast.Assign) and statement.value is node else None
        loader = (dotted_text(target) or "").rpartition(".")[2] if target is not None else ""
        word = _EVALUATION.search(loader)
        if word is None or _TRAINING.search(loader) or not _TRAINING.search(text.rpartition(".")[2]):
            return None
        kind, mine = word.group(2).lower()[:3], text.rpartition(".")[2]
        for name, made in assigned_in(scope_of(node, ctx)):
            last = name.rpartition(".")[2]
            other = _EVALUATION.search(last)
            if other is None or other.group(2).lower()[:3] != kind or last == loader or made.lineno >= node.lineno:
                continue
            if _shape(last, other) == _shape(mine, _TRAINING.search(mine)) and not _is_read(name, ctx):
                return name, made, f"{loader} loads {text}"
        return None


def _shape(name: str, word: re.Match[str] | None) -> str:
    """Return a name with its word for the part taken out."""
    return name[: word.start()] + "*" + name[word.end() :] if word is not None else name


def _is_read(name: str, ctx: Context) -> bool:
    """Say whether something in the file reads a name."""
    last = name.rpartition(".")[2]
    for node in (*ctx.nodes(ast.Name), *ctx.nodes(ast.Attribute)):
        if isinstance(node.ctx, ast.Load) and (node.id if isinstance(node, ast.Name) else node.attr) == last:
            return True
    return any(n.value == last for n in ctx.nodes(ast.Constant) if isinstance(n.value, str))
