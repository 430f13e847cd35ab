"""Attributes that carry a graph from one call of a method to the next: computed once, or handed on each time."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.static.context import Context, FunctionNode
from drygrad.static.facts.transfer import tensors_in
from drygrad.static.facts.values import Tensor
from drygrad.static.parameters import has_parameters
from drygrad.static.rules.autograd.graph import recorded
from drygrad.static.tree import walk

_CARE = frozenset(
    "detach detach_ data no_grad inference_mode requires_grad requires_grad_ set_grad_enabled training".split()
)
"""What shows that the author has thought of the graph: anywhere in the class."""


def kept_graph(node: ast.Assign, ctx: Context) -> str | None:
    """Return ``self.x`` where ``if self.x is None: self.x = ...`` in a module's forward keeps a graph for all calls."""
    method = ctx.function(node)
    cls = ctx.parent(method) if method is not None else None
    condition = ctx.parent(node)
    target = ctx.text(node.targets[0]) if len(node.targets) == 1 else None
    if method is None or not isinstance(cls, ast.ClassDef) or not isinstance(condition, ast.If) or target is None:
        return None
    owner, _, attribute = target.partition(".")
    if owner != "self" or "." in attribute or node not in condition.body or not _is_missing(condition.test, attribute):
        return None
    if not ctx.is_module_class(cls) or not _runs_in_forward(method, cls) or recorded(ctx, node) is False:
        return None
    if _is_cared_for(cls) or not _has_graph(node.value, ctx) or any(_other_stores(attribute, node, ctx)):
        return None
    return target


def carried_graph(node: ast.Assign, ctx: Context) -> str | None:
    """Return ``self.x`` where ``y, self.x = self.net(y, self.x)`` extends one graph in every call of a method.

    Known callers record gradients and call it again and again, and no code of the file touches the state otherwise.
    """
    method = ctx.function(node)
    cls = ctx.parent(method) if method is not None else None
    if method is None or not isinstance(cls, ast.ClassDef) or not isinstance(node.value, ast.Call):
        return None
    given = {ctx.text(a) for a in (*node.value.args, *(k.value for k in node.value.keywords))}
    target = next((t for t in _targets(node) if ctx.text(t) in given and _is_own(t)), None)
    if target is None or recorded(ctx, node) is not True or not _is_repeated(method, ctx):
        return None
    held = list(tensors_in([ctx.value(target)]))
    if not held or not all(tensor.requires_grad for tensor in held) or _is_cared_for(cls):
        return None
    return ctx.text(target) if not _is_touched(target.attr, node, cls, ctx) else None


def _targets(node: ast.Assign) -> Iterator[ast.Attribute]:
    for target in node.targets:
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        yield from (part for part in parts if isinstance(part, ast.Attribute))


def _is_own(target: ast.Attribute) -> bool:
    return isinstance(target.value, ast.Name) and target.value.id == "self"


def _is_repeated(method: FunctionNode, ctx: Context) -> bool:
    """Say whether the file calls a method more than once with gradients recorded, and never otherwise."""
    sites = ctx.callers(method)
    return all(site.grad for site in sites) and (len(sites) > 1 or any(ctx.loops(site.node) for site in sites))


def _is_touched(attribute: str, node: ast.Assign, cls: ast.ClassDef, ctx: Context) -> bool:
    """Say whether something may start the state anew or detach it: a store elsewhere, or code outside of the class."""
    for found in ctx.nodes(ast.Attribute):
        function = ctx.function(found)
        if found.attr != attribute or ctx.statement(found) is node:
            continue
        in_class = any(ancestor is cls for ancestor in ctx.ancestors(found))
        if not in_class or (isinstance(found.ctx, ast.Store) and (function is None or function.name != "__init__")):
            return True
    return False


def _is_missing(test: ast.expr, attribute: str) -> bool:
    """Say whether a condition asks if the attribute is not there yet."""
    match test:
        case ast.Compare(
            left=ast.Attribute(value=ast.Name(id="self"), attr=name), ops=[ast.Is()], comparators=[ast.Constant(None)]
        ):
            return name == attribute
        case ast.UnaryOp(
            op=ast.Not(), operand=ast.Call(func=ast.Name(id="hasattr"), args=[_, ast.Constant(value=name)])
        ):
            return name == attribute
        case _:
            return False


def _runs_in_forward(method: FunctionNode, cls: ast.ClassDef) -> bool:
    """Say whether a method is ``forward``, or one that ``forward`` calls."""
    forward = next((m for m in cls.body if isinstance(m, ast.FunctionDef) and m.name == "forward"), None)
    if forward is None or forward is method:
        return forward is method
    calls = (n.func for n in walk(forward) if isinstance(n, ast.Call))
    return any(isinstance(f, ast.Attribute) and ast.unparse(f) == f"self.{method.name}" for f in calls)


def _is_cared_for(cls: ast.ClassDef) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr in _CARE for n in walk(cls))


def _has_graph(value: ast.expr, ctx: Context) -> bool:
    """Say whether a value surely depends on parameters: it is known to, or a layer of the module has a part in it."""
    known = ctx.value(value)
    if isinstance(known, Tensor) and known.requires_grad is not None:
        return known.requires_grad
    return any(has_parameters(ctx.value(call.func), ctx) for call in walk(value) if isinstance(call, ast.Call))


def _other_stores(attribute: str, node: ast.Assign, ctx: Context) -> Iterator[ast.Attribute]:
    """Yield what else binds an attribute of this name outside of a constructor: it may start anew there."""
    for found in ctx.nodes(ast.Attribute):
        if found.attr != attribute or isinstance(found.ctx, ast.Load) or found is node.targets[0]:
            continue
        function = ctx.function(found)
        if function is None or function.name != "__init__":
            yield found
