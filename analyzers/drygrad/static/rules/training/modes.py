"""Which models behave differently in training and in evaluation."""

from __future__ import annotations

import ast

from drygrad.static.context import Context
from drygrad.static.facts.values import Class, Constant, Object, Value
from drygrad.static.syntax import argument
from drygrad.static.tree import walk


def mode_layer(ctx: Context, value: Value) -> str | None:
    """Return the dropout or batch norm that a model surely has; None where it has none, or is not known."""
    if not isinstance(value, Object):
        return None
    if value.cls is None:
        return _layer_in(ctx, value.node, set()) if value.type == "torch.nn.Sequential" and value.node else None
    return _layer_of(ctx, value.cls, set())


def _layer_of(ctx: Context, cls: Class, seen: set[ast.AST]) -> str | None:
    if cls.node in seen:
        return None
    seen.add(cls.node)
    init = next((n for n in cls.node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    return _layer_in(ctx, init, seen) if init is not None else None


def _layer_in(ctx: Context, root: ast.AST, seen: set[ast.AST]) -> str | None:
    """Return a layer that is made under a node, in a class of the file that is made there included."""
    for node in walk(root):
        if not isinstance(node, ast.Call):
            continue
        function = ctx.value(node.func)
        name = ctx.name(node.func) or ""
        package, _, last = name.rpartition(".")
        acts_by_mode = last.startswith("BatchNorm") or (last.startswith("Dropout") and _drops(ctx, node))
        if package == "torch.nn" and acts_by_mode:
            return last
        inner = _layer_of(ctx, function, seen) if isinstance(function, Class) else None
        if inner is not None:
            return inner
    return None


def _drops(ctx: Context, node: ast.Call) -> bool:
    given = argument(node, "p", 0)
    value = ctx.value(given)
    return given is None or (isinstance(value, Constant) and value.value != 0)
