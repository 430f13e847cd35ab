"""Hooks of modules, as the text has them: what registers one, its body, and what that fills."""

from __future__ import annotations

import ast

from drygrad.static.context import FunctionNode
from drygrad.static.tree import walk

HOOKS = frozenset(
    {
        "register_forward_hook",
        "register_forward_pre_hook",
        "register_full_backward_hook",
        "register_full_backward_pre_hook",
        "register_backward_hook",
    }
)
_FILLS = frozenset({"append", "extend", "add", "update", "setdefault", "insert"})


def names_of(node: ast.Call) -> set[str]:
    """Return the names that say which hook is registered on what."""
    return {n.id for n in walk(node) if isinstance(n, ast.Name)}


def body_of(hook: ast.expr, function: FunctionNode) -> ast.AST | None:
    """Return the hook: a lambda, or a function made in this call."""
    if isinstance(hook, ast.Lambda):
        return hook
    inner = (n for n in function.body if isinstance(n, ast.FunctionDef))
    return next((n for n in inner if isinstance(hook, ast.Name) and n.name == hook.id), None)


def filled_by(hook: ast.AST) -> set[str]:
    """Return the names of what a hook puts something into."""
    found: set[str] = set()
    for node in walk(hook):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attribute)) if attribute in _FILLS:
                found.add(name)
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()):
                found.add(name)
            case _:
                pass
    return found
