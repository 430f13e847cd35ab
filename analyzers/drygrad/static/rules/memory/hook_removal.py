"""The repairs of a hook that is never removed: to take it off after use, or to register it once."""

from __future__ import annotations

import ast

from drygrad.model import Fix
from drygrad.static.context import Context, FunctionNode
from drygrad.static.editing import free_name, inserted, put_under
from drygrad.static.facts.frame import dotted_text
from drygrad.static.rules.memory.hooks import HOOKS, body_of, filled_by, names_of
from drygrad.static.syntax import block_of, body_nodes, called, own_nodes
from drygrad.static.tree import walk

_SETTINGS = frozenset(
    {"train", "eval", "to", "cuda", "cpu", "parameters", "modules", "requires_grad_", "zero_grad", *HOOKS}
)
"""Methods of a module that run none of its forward."""


def before_the_loop(node: ast.Call, ctx: Context) -> Fix | None:
    """Register the hook once, where the loop begins with it."""
    statement, loop = ctx.statement(node), ctx.loops(node)[-1]
    defined = {n.name for n in walk(loop) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    if loop.body[0] is not statement or defined & names_of(node):
        return None
    line = inserted(ctx, loop, ctx.source_of(statement))
    return ctx.fix("Register it once, before the loop", line, ctx.delete_statement(statement))


def taken_off(node: ast.Call, registered: str, ctx: Context) -> Fix | None:
    """Remove the hook after the statements that may run it, whatever becomes of them."""
    statement, function = ctx.statement(node), ctx.function(node)
    block = block_of(ctx, statement)
    rest = block[block.index(statement) + 1 :]
    handle = free_name(ctx, node, "handle", "hook_handle")
    if not rest or function is None or handle is None or _is_generator(function):
        return None
    last = _last_to_run(node, registered, rest, function)
    kept = put_under(ctx, rest[0], last, "try:", "finally:", f"    {handle}.remove()")
    return ctx.fix("Remove the hook after use", ctx.insert_before(node, f"{handle} = "), kept)


def _is_generator(function: FunctionNode) -> bool:
    return any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in body_nodes(function))


def _last_to_run(node: ast.Call, registered: str, rest: list[ast.stmt], function: FunctionNode) -> ast.stmt:
    """Return the last statement that may run the hooked module; the last of all where it cannot be told."""
    inner = {n.name for n in body_nodes(function) if isinstance(n, ast.FunctionDef)}
    root = registered.partition(".")[0]
    running = [s for s in rest if any(_may_run(n, root, inner) for n in own_nodes(s))]
    passes_back = "backward" in called(node)
    if not running or passes_back or not _is_complete(node, rest, running[0], function):
        return rest[-1]
    return running[-1]


def _may_run(node: ast.AST, root: str, inner: set[str]) -> bool:
    if not isinstance(node, ast.Call) or called(node) in _SETTINGS:
        return False
    text = dotted_text(node.func) or ""
    given = (dotted_text(value) or "" for value in (*node.args, *(keyword.value for keyword in node.keywords)))
    return text.partition(".")[0] in {root, *inner} or any(part.partition(".")[0] == root for part in given)


def _is_complete(node: ast.Call, rest: list[ast.stmt], running: ast.stmt, function: FunctionNode) -> bool:
    """Say whether nothing reads what the hook collects before the statement that is taken to run it."""
    hook = body_of(node.args[0], function) if node.args else None
    filled = filled_by(hook) if hook is not None else set[str]()
    earlier = rest[: rest.index(running)]
    return not any(isinstance(n, ast.Name) and n.id in filled for s in earlier for n in own_nodes(s))
