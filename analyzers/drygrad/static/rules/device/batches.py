"""Loops over data loaders: what a batch is unpacked into, and which names are moved to another device."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import chain

from drygrad.model import Edit
from drygrad.static.context import Context
from drygrad.static.facts.values import UNKNOWN, Object
from drygrad.static.rules.device.placement import device_of, is_moved_elsewhere
from drygrad.static.syntax import argument
from drygrad.static.tree import remembered, walk

BatchLoop = ast.For | ast.AsyncFor
_LENGTHS = re.compile(r"len|size|count|name|path|^_|ids?$|ind(ex|ices)", re.IGNORECASE)
"""Names of what may have to stay on the CPU, or is no tensor."""
_PLACES_INPUTS = re.compile(r"Parallel|prepare|FSDP|deepspeed|device_map|initialize|wrap", re.IGNORECASE)
"""Wrappers of a model that may send its inputs to its device."""


def batch_targets(loop: BatchLoop) -> list[ast.expr]:
    """Return the names that a loop unpacks each batch into, past the count of an ``enumerate``."""
    target = loop.target
    if isinstance(loop.iter, ast.Call) and isinstance(loop.iter.func, ast.Name) and loop.iter.func.id == "enumerate":
        target = target.elts[1] if isinstance(target, ast.Tuple) and len(target.elts) == 2 else target
    return list(target.elts) if isinstance(target, (ast.Tuple, ast.List)) else [target]


def unpacked_names(loop: BatchLoop) -> list[str]:
    """Return the names of a batch that a loop unpacks into several."""
    targets = batch_targets(loop)
    return [target.id for target in targets if isinstance(target, ast.Name)] if len(targets) > 1 else []


def loader_loop(node: ast.AST, ctx: Context) -> BatchLoop | None:
    """Return the innermost loop around a node that runs over a data loader."""
    for loop in ctx.loops(node):
        if isinstance(loop, (ast.For, ast.AsyncFor)) and runs_over_loader(loop, ctx):
            return loop
    return None


def if_left_there(given: ast.expr, ctx: Context) -> str:
    """Say what a batch's place hangs on, where the file does not make the loader that gives it; else nothing."""
    loop = loader_loop(given, ctx)
    if loop is None or not isinstance(given, ast.Name) or given.id not in unpacked_names(loop):
        return ""
    loader = _unwrapped(loop.iter)
    known = isinstance(ctx.value(loader), Object)
    return "" if known else f" (if `{ctx.source_of(loader)}` yields CPU batches)"


def runs_over_loader(loop: BatchLoop, ctx: Context) -> bool:
    """Say whether a loop runs over a data loader: one that the file makes, or something called a loader."""
    iterated = _unwrapped(loop.iter)
    value = ctx.value(iterated)
    if isinstance(value, Object):
        return value.type == "torch.utils.data.DataLoader"
    name = ctx.text(iterated)
    return name is not None and value is UNKNOWN and re.search(r"loader(s|_\w+)?$|(^|_)dl$", name.lower()) is not None


def _unwrapped(iterated: ast.expr) -> ast.expr:
    """Return the loader within ``enumerate(tqdm(loader))``."""
    while isinstance(iterated, ast.Call) and iterated.args and _is_wrapper(iterated.func):
        iterated = iterated.args[0]
    return iterated


def _is_wrapper(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in ("enumerate", "tqdm", "track")


def batches_move_unseen(ctx: Context) -> bool:
    """Say whether a framework, collation or a dataset of the file may put batches on a device."""
    return ctx.derived(_batches_move_unseen)


def _batches_move_unseen(ctx: Context) -> bool:
    if ctx.mentions("collate_fn") or ctx.mentions("TensorDataset(") or is_moved_elsewhere(ctx):
        return True
    return any(
        re.search(r"\.to\(|\.cuda\(|device", ast.unparse(cls.node))
        for cls in ctx.classes()
        if cls.derives_from("torch.utils.data.Dataset", "torch.utils.data.IterableDataset")
    )


def touched_names(body: list[ast.stmt]) -> set[str]:
    """Return the names that statements assign, or call ``to``, ``cuda`` or ``cpu`` on."""
    return set(chain.from_iterable(map(_touched_in, body)))


@remembered
def _touched_in(statement: ast.AST) -> Iterator[str]:
    return chain.from_iterable(map(_touched, walk(statement)))


def _touched(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store()):
            yield name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="to" | "cuda" | "cpu")):
            yield name
        case _:
            pass


def move_at_head(loop: BatchLoop, device: str, ctx: Context) -> Edit | None:
    """Return the edit that moves the tensors of a batch at the head of the loop's body."""
    first = loop.body[0]
    if ctx.source.line_text(first.lineno)[: ctx.source.start(first).column].strip():
        return None
    touched = touched_names(loop.body)
    used = {node.id for statement in loop.body for node in walk(statement) if isinstance(node, ast.Name)}
    targets = [target.id for target in batch_targets(loop) if isinstance(target, ast.Name)]
    names = [name for name in targets if name in used - touched and not _LENGTHS.search(name)]
    values = ", ".join(f"{name}.to({device})" for name in names)
    return ctx.insert_statement(first, f"{', '.join(names)} = {values}") if names else None


def moved_model(model: str, node: ast.AST, ctx: Context) -> tuple[ast.Call, str] | None:
    """Return where a model that the file does not construct is moved, and the device, if that is certain.

    A thing that is both moved and called is a module. The function around the node is searched, for ``self.model``
    the class, for a global the module's own statements.
    """
    found = list(_moves(model, _scope(model, node, ctx), ctx))
    devices = {device for _, device in found}
    if len(devices) != 1 or None in devices or "cpu" in devices:
        return None
    call, device = found[0]
    return (call, device) if device is not None else None


def _scope(model: str, node: ast.AST, ctx: Context) -> ast.AST:
    function = ctx.function(node)
    if model.startswith("self."):
        return next((a for a in ctx.ancestors(node) if isinstance(a, ast.ClassDef)), ctx.tree)
    if function is not None and any(_binds(n, model) for n in walk(function)):
        return function
    return ctx.tree


def _binds(node: ast.AST, name: str) -> bool:
    match node:
        case ast.arg(arg=bound) | ast.Name(id=bound, ctx=ast.Store()):
            return bound == name
        case _:
            return False


def _moves(model: str, scope: ast.AST, ctx: Context) -> Iterator[tuple[ast.Call, str | None]]:
    """Yield the moves of a model; a device of None stands for any other change that may send its inputs along."""
    for node in walk(scope):
        if isinstance(node, ast.Assign) and any(ctx.text(target) == model for target in node.targets):
            if isinstance(node.value, ast.Call) and _PLACES_INPUTS.search(ast.unparse(node.value)):
                yield node.value, None
            elif isinstance(node.value, ast.Call) and ctx.text(node.value.func) != f"{model}.to":
                yield from _move(node.value, ctx)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and ctx.text(node.func.value) == model:
            yield from _move(node, ctx)


def _move(node: ast.Call, ctx: Context) -> Iterator[tuple[ast.Call, str | None]]:
    if not isinstance(node.func, ast.Attribute):
        return
    given = argument(node, "device", 0)
    match node.func.attr:
        case "cuda":
            yield node, "cuda"
        case "cpu":
            yield node, "cpu"
        case "to" if given is not None:
            device = device_of(ctx, given)
            if device is not None or "dtype" not in ast.unparse(given):
                yield node, device
        case _:
            pass
