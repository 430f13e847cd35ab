"""Whether what a name stands for ends as numbers or text, or may still reach a backward."""

from __future__ import annotations

import ast
from typing import TypeAlias

from drygrad.static.context import Context, FunctionNode
from drygrad.static.datasets import called_by
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Constant, Number, Reference, Tensor
from drygrad.static.loops import backwards_in
from drygrad.static.roles import role_of
from drygrad.static.rules.memory.keeping import keepings, root_of
from drygrad.static.syntax import assigned_in, called, scope_of
from drygrad.static.tree import walk

Followed: TypeAlias = frozenset[tuple[str, int]]
"""The names that are being followed, each with where it lives."""
_FAR = 8
"""So many names are followed one after another, at most."""
_READS = frozenset({"item", "tolist", "detach", "numpy", "size", "dim", "requires_grad_", "keys"})
_READERS = frozenset({"print", "len", "float", "int", "bool", "str", "repr", "format", "round", "isinstance"})
COMBINES = frozenset(
    "sum max min stack cat mean cpu cuda to float double clone median std sqrt squeeze view reshape flatten".split()
)
"""What gives a tensor of tensors, also where nothing tells that these are tensors."""
_HOLDS = frozenset({"dict", "values", "items", "get", "list", "tuple", "sorted", "zip", "enumerate", "reversed"})
_DIFFERENTIATES = frozenset({"backward", "grad", "vjp", "jacobian"})
_KEEPS_LIST = frozenset({"append", "appendleft", "clear", "extend", "insert", "pop", "update", "setdefault"})


def is_differentiated(text: str, node: ast.AST, ctx: Context) -> bool:
    """Say whether a backward in the same function runs from something that a name is part of."""
    for backward in backwards_in(scope_of(node, ctx), ctx):
        for root in backward.roots:
            if any(_text(part) == text for part in walk(root)):
                return True
    return False


def _text(node: ast.AST) -> str | None:
    return dotted_text(node) if isinstance(node, (ast.Name, ast.Attribute)) else None


def is_only_read(
    text: str, node: ast.AST, ctx: Context, followed: Followed = frozenset(), within: ast.AST | None = None
) -> bool:
    """Say whether a name's value surely ends as numbers or text: no use of it can reach a backward."""
    home = within or home_of(text, node, ctx)
    if (text, id(home)) in followed:
        return True
    if len(followed) >= _FAR:
        return False
    followed |= {(text, id(home))}
    last = text.rpartition(".")[2]
    for use in walk(home):
        named = "." in text and isinstance(use, ast.Attribute) and use.attr == last  # of whatever object
        if (named or _text(use) == text) and isinstance(_context(use), ast.Load):
            assert isinstance(use, ast.expr)
            if not _ends_read(use, ctx, followed):
                return False
    return True


def is_read(text: str, node: ast.AST, ctx: Context) -> bool:
    """Say whether anything but what adds to a name reads it."""
    uses = (n for n in walk(home_of(text, node, ctx)) if _text(n) == text and not isinstance(_context(n), ast.Store))
    added = ctx.statement(node)
    return any(ctx.statement(use) is not added for use in uses)


def _context(node: ast.AST) -> object:
    return getattr(node, "ctx", None)


def home_of(text: str, node: ast.AST, ctx: Context) -> ast.AST:
    """Return where to look for all uses of a name: its function; the whole file for attributes and globals."""
    scope = scope_of(node, ctx)
    return scope if "." not in text and any(bound == text for bound, _ in assigned_in(scope)) else ctx.tree


def _ends_read(use: ast.expr, ctx: Context, followed: Followed) -> bool:
    """Follow a value upwards through what is computed of it."""
    parent = ctx.parent(use)
    if isinstance(parent, ast.expr) and _has_no_graph(parent, ctx):
        return True
    match parent:
        case ast.FormattedValue() | ast.Compare() | ast.Expr() | ast.Delete() | ast.AugAssign():
            return not isinstance(parent, ast.AugAssign) or _reads_target(parent, use, ctx, followed)
        case ast.Attribute(attr=name):
            return _method_reads(parent, name, ctx, followed)
        case ast.Call(args=arguments) if use in arguments:
            return _function_reads(parent, use, ctx, followed)
        case ast.keyword():
            call = ctx.parent(parent)
            return isinstance(call, ast.Call) and _function_reads(call, use, ctx, followed)
        case ast.Subscript() | ast.BinOp() | ast.UnaryOp() | ast.IfExp() | ast.Tuple() | ast.List() | ast.Starred():
            return _ends_read(parent, ctx, followed)
        case ast.Dict():
            return _ends_read(parent, ctx, followed)
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript() as target]):
            name = dotted_text(root_of(target))
            return name is not None and is_only_read(name, parent, ctx, followed)
        case ast.Assign(targets=[ast.Name(id=name)]):
            return is_only_read(name, parent, ctx, followed)
        case ast.For(target=target):
            names = [n.id for n in walk(target) if isinstance(n, ast.Name)]
            return all(is_only_read(name, parent, ctx, followed, within=parent) for name in names)
        case ast.Return():
            return _callers_read(parent, ctx, followed)
        case ast.comprehension(target=ast.Name(id=name)):
            return _comprehension_reads(parent, name, ctx, followed)
        case _:
            return False


def _has_no_graph(node: ast.expr, ctx: Context) -> bool:
    """Say whether an operation gives what has no graph; a function may do more with a tensor than what it returns."""
    value = ctx.value(node)
    if isinstance(node, ast.Call) and ctx.call(node) is None and not isinstance(ctx.value(node.func), Reference):
        return False
    return isinstance(value, (Number, Constant)) or (isinstance(value, Tensor) and value.requires_grad is False)


def _callers_read(node: ast.Return, ctx: Context, followed: Followed) -> bool:
    """Say whether a function's result is read only, at each of its calls."""
    function = ctx.function(node)
    sites = ctx.callers(function) if function is not None else []
    return bool(sites) and all(_ends_read(site.node, ctx, followed) for site in sites)


def _reads_target(node: ast.AugAssign, use: ast.expr, ctx: Context, followed: Followed) -> bool:
    text = dotted_text(root_of(node.target))
    return text is not None and node.value is use and is_only_read(text, node, ctx, followed)


def _method_reads(attribute: ast.Attribute, name: str, ctx: Context, followed: Followed) -> bool:
    call = ctx.parent(attribute)
    if name in ("data", "shape", "grad_fn", "requires_grad", "dtype", "device", "ndim"):
        return True
    if not isinstance(call, ast.Call) or call.func is not attribute:
        return False
    if name in _READS or name in _KEEPS_LIST:
        return name not in ("pop", "setdefault") or isinstance(ctx.parent(call), (ast.Expr, ast.Attribute))
    return (name in COMBINES | _HOLDS or ctx.call(call) is not None) and _goes_on(call, name, ctx, followed)


def _goes_on(call: ast.Call, name: str, ctx: Context, followed: Followed) -> bool:
    """Follow the result of an operation; one in place goes on under the name that it has."""
    return name != "backward" and _ends_read(call, ctx, followed)


def _function_reads(call: ast.Call, given: ast.expr, ctx: Context, followed: Followed) -> bool:
    name = called(call)
    if name in _READERS or (ctx.name(call.func) or "").startswith("numpy."):
        return True
    kept = {keeping.name for keeping in keepings(call, ctx)}
    if kept:
        return all(is_only_read(owner, call, ctx, followed) for owner in kept)
    known = ctx.call(call)
    if known is not None and known.operation in _DIFFERENTIATES:
        return False
    functions = [*called_by(call, ctx)]
    if functions:
        return all(_parameter_read(call, given, f, names, ctx, followed) for f, names in functions)
    if name in COMBINES | _HOLDS or known is not None or role_of(ctx, call.func) in ("model", "loss"):
        return _goes_on(call, name, ctx, followed)
    return False


def _parameter_read(
    call: ast.Call, given: ast.expr, function: FunctionNode, names: list[str], ctx: Context, followed: Followed
) -> bool:
    """Say whether a function of the file only reads what a call gives it."""
    named = next((keyword.arg for keyword in call.keywords if keyword.value is given), None)
    if named is None and given in call.args[: len(names)]:
        named = names[call.args.index(given)]
    return named is not None and is_only_read(named, function, ctx, followed, within=function)


def _comprehension_reads(generator: ast.comprehension, name: str, ctx: Context, followed: Followed) -> bool:
    whole = ctx.parent(generator)
    if not isinstance(whole, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
        return False
    uses = [n for n in walk(whole.elt) if isinstance(n, ast.Name) and n.id == name]
    if any(use is whole.elt for use in uses):
        return False
    return all(_ends_read(use, ctx, followed) for use in uses)
