"""Tensors that are handed to a function which keeps them: in an attribute of its object, in a list of the file."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from drygrad.static.context import Context, FunctionNode
from drygrad.static.datasets import called_by
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.linked import is_elsewhere
from drygrad.static.loops import is_guarded
from drygrad.static.rules.memory.keeping import Keeping, keepings
from drygrad.static.syntax import assigned_in, bound_names, called, nodes_within
from drygrad.static.tree import walk

_CUTS = frozenset({"item", "detach", "tolist", "numpy", "data", "shape", "size", "dim", "device", "dtype"})
_OF_OBJECTS = frozenset({"forward", "__call__"})
"""The methods that a call of an object runs."""
_CONVERTS = frozenset({"float", "int", "bool", "str", "len", "isinstance", "print", "repr"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_KINDS = (ast.Call, ast.Assign, ast.AugAssign)


class Handed(NamedTuple):
    """An argument, the name that lives on and gets it, and the statement; ``listed`` where it stays one of many."""

    argument: ast.expr
    owner: str
    statement: ast.stmt
    listed: bool


def handed_over(ctx: Context) -> Sequence[tuple[ast.Call, Handed]]:
    """Return the arguments that functions of the file keep as they are, with the calls that hand them over."""
    return ctx.derived(_handed_over)


def _handed_over(ctx: Context) -> list[tuple[ast.Call, Handed]]:
    return [(call, handed) for call in _calls_of_keepers(ctx) for handed in _handed_by(call, ctx)]


def _calls_of_keepers(ctx: Context) -> list[ast.Call]:
    functions = (function for kind in _FUNCTIONS for function in ctx.nodes(kind))
    keepers = {each.name for each in functions if ctx.noted(_keepings_of, each)} - {"__init__"}
    if keepers & _OF_OBJECTS:
        return [*ctx.nodes(ast.Call)]
    return [call for call in ctx.nodes(ast.Call) if called(call) in keepers]


def _handed_by(call: ast.Call, ctx: Context) -> Iterator[Handed]:
    """Yield the arguments of a call that the function keeps as they are."""
    for function, names in called_by(call, ctx):
        rest = function.args.kwarg.arg if function.args.kwarg is not None else ""
        named = ((k.arg if k.arg in names else rest, k.value) for k in call.keywords)
        given = [*zip(names, call.args, strict=False), *((name or "", value) for name, value in named)]
        bound = {name for name, _ in assigned_in(function)}
        arguments = {name: argument for name, argument in given if name and name not in bound}
        for name, argument in given:
            if name in arguments and not isinstance(argument, (ast.Constant, ast.Starred)):
                for keeping, statement in _kept(function, name, ctx):
                    owner = keeping.name if _is_of_caller(keeping.name, function, ctx) else None
                    owner = owner or _owner(keeping.name, arguments, bound, ctx)
                    if owner is not None:
                        yield Handed(argument, owner, statement, not keeping.linked)


def _is_of_caller(name: str, function: FunctionNode, ctx: Context) -> bool:
    """Say whether a name is of the function around the one that keeps something there."""
    outer = ctx.function(function)
    return outer is not None and any(bound == name for bound, _ in assigned_in(outer))


def _owner(name: str, arguments: dict[str, ast.expr], bound: set[str], ctx: Context) -> str | None:
    """Return what the caller knows the keeper as: an attribute, a name of the file, an argument."""
    if name in arguments:
        return dotted_text(arguments[name])
    return name if name.startswith("self.") or (name in ctx.facts.globals and name not in bound) else None


def _kept(function: FunctionNode, name: str, ctx: Context) -> Iterator[tuple[Keeping, ast.stmt]]:
    if is_elsewhere(function):
        return  # its keeper is a name of another file
    for keeping, statement in ctx.noted(_keepings_of, function):
        if _carries(keeping.kept, name, ctx):
            yield keeping, statement


def _keepings_of(function: ast.AST, ctx: Context) -> list[tuple[Keeping, ast.stmt]]:
    """Return what a function keeps whenever it runs, and the statements that keep it."""
    return [
        (keeping, ctx.statement(node))
        for node in nodes_within(function)
        if isinstance(node, _KINDS) and not is_guarded(node, function, ctx)
        for keeping in keepings(node, ctx)
    ]


def _carries(value: ast.expr, name: str, ctx: Context) -> bool:
    """Say whether an expression reads a parameter together with its graph."""
    return any(isinstance(n, ast.Name) and n.id == name and not _is_cut(n, value, ctx) for n in walk(value))


def _is_cut(node: ast.AST, until: ast.AST, ctx: Context) -> bool:
    while node is not until:
        parent = ctx.parent(node)
        if parent is None:
            return False
        if isinstance(parent, ast.Attribute) and parent.attr in _CUTS:
            return True
        if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id in _CONVERTS:
            return True
        if isinstance(parent, ast.comprehension) and node is parent.iter:
            whole = ctx.parent(parent)
            made = whole.value if isinstance(whole, ast.DictComp) else getattr(whole, "elt", None)
            targets = bound_names(parent.target)
            return isinstance(made, ast.expr) and not any(_carries(made, name, ctx) for name in targets)
        node = parent
    return False
