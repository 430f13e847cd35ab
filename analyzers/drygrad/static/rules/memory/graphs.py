"""Graphs that outlive the step that made them: who carries one, and whether a backward may still need it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

from drygrad.model import Fix
from drygrad.static.context import Context, FunctionNode, Loop
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Constant, Number, Origin, Tensor, Value
from drygrad.static.loops import backwards_in, step_around
from drygrad.static.syntax import assigned_in, called, rebound_between, scope_of
from drygrad.static.tree import walk

Graph = Literal["freed", "whole"]
"""``freed``: a backward has freed what the graph had saved, its nodes stay; ``whole``: none has run through it."""

_READS = frozenset({"item", "tolist", "detach", "numpy", "size", "dim", "requires_grad_"})
_READERS = frozenset({"print", "len", "float", "int", "bool", "str", "repr", "format", "round", "isinstance"})
_COMBINES = frozenset({"sum", "max", "min", "stack", "cat", "mean", "cpu", "to", "float", "median", "std", "sqrt"})
_KEEPS_LIST = frozenset({"append", "clear", "extend", "pop"})


def repeated_around(node: ast.AST, name: str, ctx: Context) -> Loop | FunctionNode | None:
    """Return what runs a statement again and again while a name lives on: a loop, or one step of a loop elsewhere."""
    loops = ctx.loops(node)
    if loops:
        return loops[0]
    return step_around(node, ctx) if name.startswith("self.") else None


def graph_of(node: ast.expr, loop: Loop | FunctionNode, ctx: Context) -> Graph | None:
    """Say what graph a value carries where an iteration of a loop stores it; None: none, or nobody knows."""
    value = ctx.value(node)
    if isinstance(value, (Number, Constant)) or (isinstance(value, Tensor) and value.requires_grad is False):
        return None
    text = dotted_text(node)
    for backward in backwards_in(loop, ctx):
        if backward.keeps_graph:
            continue
        named = text in backward.names and not rebound_between(text or "", backward.node, node, loop)
        if named or any(_made_from(ctx.value(root), value) for root in backward.roots):
            return "freed"
    return "whole" if isinstance(value, Tensor) and value.requires_grad else None


def _made_from(value: Value, part: Value) -> bool:
    """Say whether a tensor was computed from another one that requires grad."""
    if not isinstance(part, Tensor) or not part.requires_grad or part.origin is None:
        return False
    return any(origin == part.origin for origin in _ancestry(value, set()))


def _ancestry(value: Value, seen: set[int]) -> Iterator[Origin]:
    if isinstance(value, Tensor) and value.origin is not None and id(value.origin) not in seen:
        seen.add(id(value.origin))
        yield value.origin
        for operand in value.origin.operands:
            yield from _ancestry(operand, seen)


def is_differentiated(text: str, node: ast.AST, ctx: Context) -> bool:
    """Say whether a backward in the same function runs from something that a name is part of."""
    for backward in backwards_in(scope_of(node, ctx), ctx):
        for root in backward.roots:
            if any(_text(part) == text for part in walk(root)):
                return True
    return False


def _text(node: ast.AST) -> str | None:
    return dotted_text(node) if isinstance(node, (ast.Name, ast.Attribute)) else None


def is_only_read(text: str, node: ast.AST, ctx: Context, followed: frozenset[str] = frozenset()) -> bool:
    """Say whether a name's value surely ends as numbers or text: no use of it can reach a backward."""
    if text in followed:
        return True
    followed |= {text}
    scope = home_of(text, node, ctx)
    last = text.rpartition(".")[2]
    for use in walk(scope):
        if "." in text and isinstance(use, ast.Attribute) and use.attr == last and _text(use) != text:
            return False
        if _text(use) == text and isinstance(getattr(use, "ctx", None), ast.Load):
            assert isinstance(use, ast.expr)
            if not _ends_read(use, ctx, followed):
                return False
    return True


def home_of(text: str, node: ast.AST, ctx: Context) -> ast.AST:
    """Return where to look for all uses of a name: its function; the whole file for attributes and globals."""
    scope = scope_of(node, ctx)
    return scope if "." not in text and any(bound == text for bound, _ in assigned_in(scope)) else ctx.tree


def _ends_read(use: ast.expr, ctx: Context, followed: frozenset[str]) -> bool:
    """Follow a value upwards through what is computed of it."""
    parent = ctx.parent(use)
    match parent:
        case ast.FormattedValue() | ast.Compare() | ast.Expr() | ast.Delete() | ast.AugAssign():
            return not isinstance(parent, ast.AugAssign) or _reads_target(parent, use, ctx, followed)
        case ast.Attribute(attr=name):
            return _method_reads(parent, name, ctx, followed)
        case ast.Call(args=arguments) if use in arguments:
            return _function_reads(parent, ctx, followed)
        case ast.Subscript() | ast.BinOp() | ast.UnaryOp() | ast.IfExp() | ast.Tuple() | ast.List():
            return _ends_read(parent, ctx, followed)
        case ast.Assign(targets=[ast.Attribute() as target]):
            return dotted_text(target) in followed  # its own new value
        case ast.Assign(targets=[ast.Name(id=name)]):
            return is_only_read(name, parent, ctx, followed)
        case ast.comprehension(target=ast.Name(id=name)):
            return _comprehension_reads(parent, name, ctx, followed)
        case _:
            return False


def _reads_target(node: ast.AugAssign, use: ast.expr, ctx: Context, followed: frozenset[str]) -> bool:
    text = dotted_text(node.target)
    return text is not None and node.value is use and is_only_read(text, node, ctx, followed)


def _method_reads(attribute: ast.Attribute, name: str, ctx: Context, followed: frozenset[str]) -> bool:
    call = ctx.parent(attribute)
    if name in ("data", "shape", "grad_fn", "requires_grad"):
        return True
    if not isinstance(call, ast.Call) or call.func is not attribute:
        return False
    if name in _READS or name in _KEEPS_LIST:
        return name != "pop" or isinstance(ctx.parent(call), ast.Expr)
    return name in _COMBINES and _ends_read(call, ctx, followed)


def _function_reads(call: ast.Call, ctx: Context, followed: frozenset[str]) -> bool:
    name = called(call)
    if name in _READERS or (ctx.name(call.func) or "").startswith("numpy."):
        return True
    return name in _COMBINES and _ends_read(call, ctx, followed)


def _comprehension_reads(generator: ast.comprehension, name: str, ctx: Context, followed: frozenset[str]) -> bool:
    whole = ctx.parent(generator)
    if not isinstance(whole, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
        return False
    uses = [n for n in walk(whole.elt) if isinstance(n, ast.Name) and n.id == name]
    if any(use is whole.elt for use in uses):
        return False
    return all(_ends_read(use, ctx, followed) for use in uses)


def detached(node: ast.expr, ctx: Context) -> Fix | None:
    """Make the fix that takes a tensor out of its graph where it is stored."""
    title = "Store it without its graph: detach()"
    if isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
        return ctx.fix(title, ctx.insert_after(node, ".detach()"), safety="safe")
    return ctx.fix(title, ctx.insert_before(node, "("), ctx.insert_after(node, ").detach()"), safety="safe")
