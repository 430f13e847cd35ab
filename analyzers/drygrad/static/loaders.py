"""Data loaders that the file makes: over which of its datasets, and with how many workers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.static.context import Context, FunctionNode
from drygrad.static.facts.values import NONE, Arguments, Class, Constant, Function, Object, options_of
from drygrad.static.tree import walk

LOADER = "torch.utils.data.DataLoader"


def loader_made_by(node: ast.Call, ctx: Context) -> Object | None:
    """Return the data loader that a call makes; None for other calls."""
    made = ctx.value(node)
    return made if isinstance(made, Object) and made.type == LOADER and made.node is node else None


def workers_of(arguments: Arguments) -> int | None:
    """Return how many workers a loader has; None where that is not known."""
    given = arguments.get("num_workers", 5)
    if given is None:
        return 0
    return given.value if isinstance(given, Constant) and isinstance(given.value, int) else None


def has_several_workers(arguments: Arguments) -> bool:
    """Say whether a loader surely has two workers or more, and nothing that prepares each of them."""
    return (workers_of(arguments) or 0) > 1 and arguments.get("worker_init_fn", 9) in (None, NONE)


def dataset_of(arguments: Arguments) -> Class | None:
    """Return the class, of the file, of the dataset that a loader is given; None where that is not known."""
    given = arguments.get("dataset", 0)
    classes = {option.cls for option in options_of(given or NONE) if isinstance(option, Object)}
    return next(iter(classes)) if len(classes) == 1 else None


def used_by(cls: Class, method: str) -> Iterator[FunctionNode]:
    """Yield a method of a class and those that it calls on ``self``, directly or through others."""
    waiting, seen = [method], {method}
    while waiting:
        member = cls.member(waiting.pop())
        if not isinstance(member, Function) or not isinstance(member.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        yield member.node
        for node in walk(member.node):
            match node:
                case ast.Attribute(value=ast.Name(id="self"), attr=name) if name not in seen:
                    seen.add(name)
                    waiting.append(name)
                case _:
                    pass


def names_used(cls: Class) -> Iterator[str]:
    """Yield the names and attributes that a class, and those of the file that it derives from, speaks of."""
    for each in cls.lineage():
        for node in walk(each.node):
            if isinstance(node, ast.Name):
                yield node.id
            elif isinstance(node, ast.Attribute):
                yield node.attr
