"""Classes that hold samples: what a data loader calls, and what it does to what they hold."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.static.context import Context, FunctionNode
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import UNKNOWN, Class, Function, Object, Value, options_of
from drygrad.static.syntax import bound_names, parameter_names
from drygrad.static.tree import walk

_DATASETS = ("torch.utils.data.Dataset", "torch.utils.data.dataset.Dataset", "torch.utils.data.TensorDataset")


def sample_methods(ctx: Context) -> Iterator[FunctionNode]:
    """Yield the ``__getitem__`` methods of the file's datasets: classes that derive from one, or also have a length."""
    for cls in ctx.classes():
        member = cls.members.get("__getitem__")
        if isinstance(member, Function) and isinstance(member.node, ast.FunctionDef) and _is_dataset(cls):
            yield member.node


def _is_dataset(cls: Class) -> bool:
    return cls.derives_from(*_DATASETS) or (not cls.bases and cls.member("__len__") is not None)


def functions_of(value: Value, method: str) -> Iterator[FunctionNode]:
    """Yield the functions that calling a value runs: itself, or a method of its class."""
    for option in options_of(value):
        if isinstance(option, Object) and option.cls is not None:
            option = option.cls.member(method)  # noqa: PLW2901 - what is called, not the object
        if isinstance(option, Function) and isinstance(option.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield option.node


def called_by(node: ast.Call, ctx: Context) -> Iterator[tuple[FunctionNode, list[str]]]:
    """Yield the functions of the file that a call may run, with the names of their parameters, ``self`` left out."""
    for option in _called(node, ctx):
        is_module = isinstance(option, Object) and option.is_module
        for function in functions_of(option, "forward" if is_module else "__call__"):
            bound = isinstance(option, Object) or (isinstance(option, Function) and option.receiver is not None)
            yield function, parameter_names(function)[1 if bound else 0 :]


def _called(node: ast.Call, ctx: Context) -> Iterator[Value]:
    """Yield what a call may call; for an attribute of ``self``, what the objects that the file makes have there."""
    yield from options_of(ctx.value(node.func))
    match node.func:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            function = ctx.function(node)
            owner = ctx.parent(function) if function is not None else None
            for made in ctx.facts.instances.get(owner, []) if owner is not None else ():
                yield from options_of(ctx.facts.attributes(made).get(name, UNKNOWN))
        case _:
            return


def writes_to(name: str, body: list[ast.stmt]) -> ast.AST | None:
    """Return where a body writes into what a name stands for, before it gives the name to anything else."""
    for statement in body:
        for node in walk(statement):
            if _is_write(node, name):
                return node
        if name in bound_names(statement):
            return None
    return None


def _is_write(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Subscript(value=ast.Name(id=owner), ctx=ast.Store(), slice=index):
            return owner == name and not _is_key(index)
        case ast.Call(func=ast.Attribute(value=target, attr=method)) if method.endswith("_"):
            return not method.endswith("__") and dotted_text(_owner(target)) == name
        case _:
            return False


def _owner(target: ast.expr) -> ast.expr:
    """Return what a subscript is a part of: ``x[1:].zero_()`` writes into x."""
    while isinstance(target, ast.Subscript):
        target = target.value
    return target


def _is_key(index: ast.expr) -> bool:
    return isinstance(index, ast.Constant) and isinstance(index.value, str)
