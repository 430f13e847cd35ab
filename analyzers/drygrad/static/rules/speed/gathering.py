"""The repair of a tensor that grows by concatenation: its pieces gathered in a list, and joined once."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import NamedTuple

from drygrad.model import Edit, Fix
from drygrad.static.context import Context, Loop
from drygrad.static.editing import inserted
from drygrad.static.facts.values import TorchCall
from drygrad.static.syntax import block_of, bound_names
from drygrad.static.tree import walk

_OTHER_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class _Growth(NamedTuple):
    """What grows: ``begin`` gives it its first piece, ``step`` adds others, ``loop`` holds all turns that do."""

    name: str
    step: ast.stmt
    begin: ast.Assign
    loop: Loop


def gathered(node: ast.Assign, call: TorchCall, ctx: Context) -> Fix | None:
    """Return the fix; None where the loop does more with the whole, or the pieces may change after they were taken."""
    pieces = call.operands[0]
    if not isinstance(pieces, (ast.List, ast.Tuple)) or not isinstance(node.targets[0], ast.Name):
        return None
    name = node.targets[0].id
    if _is_scripted(node, ctx):
        return None
    first, *added = pieces.elts
    growth = _growth(node, name, added, ctx)
    if not isinstance(first, ast.Name) or first.id != name or growth is None or not isinstance(node.value, ast.Call):
        return None
    scope = ctx.function(node) or ctx.tree
    if any(_is_written_to(piece, growth.loop) for piece in added) or _is_written_to(growth.begin.value, scope):
        return None
    texts = [ctx.source_of(piece) for piece in added]
    gather = f"{name}.append({texts[0]})" if len(texts) == 1 else f"{name}.extend(({', '.join(texts)}))"
    begun, join = _joined(growth, node.value, pieces, ctx)
    return ctx.fix(
        "Append to a list and concatenate once",
        begun,
        ctx.replace(growth.step, gather),
        inserted(ctx, growth.loop, join, after=True),
    )


def _is_scripted(node: ast.AST, ctx: Context) -> bool:
    """Say whether a function is compiled by a language in which a name has one type."""
    function = ctx.function(node)
    return function is not None and any("script" in ctx.source_of(d) for d in function.decorator_list)


def _joined(growth: _Growth, call: ast.Call, pieces: ast.expr, ctx: Context) -> tuple[Edit, str]:
    """Return the list's beginning, and the statement that joins it: of the call as it is written, with the list."""
    start, whole = ctx.source.offset(ctx.source.start(call)), ctx.source_of(call)
    before = ctx.source.offset(ctx.source.start(pieces)) - start
    after = ctx.source.offset(ctx.source.end(pieces)) - start
    join = f"{growth.name} = {whole[:before]}{growth.name}{whole[after:]}"
    if _is_none(growth.begin.value):
        return ctx.replace(growth.begin.value, "[]"), f"{join} if {growth.name} else None"
    return ctx.replace(growth.begin.value, f"[{ctx.source_of(growth.begin.value)}]"), join


def _growth(node: ast.Assign, name: str, added: list[ast.expr], ctx: Context) -> _Growth | None:
    """Return what grows, where nothing but this happens to it between its beginning and the end of the loop."""
    step = _step(node, name, added, ctx)
    place: ast.AST = step
    loop: Loop | None = None
    while (parent := ctx.parent(place)) is not None and isinstance(place, ast.stmt):
        block = block_of(ctx, place)
        before = block[: block.index(place)]
        begin = next((s for s in reversed(before) if _mentions(s, name)), None)
        if begin is not None:
            is_ours = loop is not None and _is_beginning(begin, name, step is not node)
            between = [place, *before[before.index(begin) + 1 :]]
            alone = is_ours and _is_alone(name, step, between, ctx)
            return _Growth(name, step, begin, loop) if alone and isinstance(begin, ast.Assign) and loop else None
        if isinstance(parent, ast.Try):
            return None  # the join may raise what a turn's own concatenation would have, where it is not caught
        if isinstance(parent, (ast.For, ast.While)) and place in parent.body and not parent.orelse:
            loop = parent
        elif loop is not None and not isinstance(parent, ast.With):
            return None
        place = parent
    return None


def _step(node: ast.Assign, name: str, added: list[ast.expr], ctx: Context) -> ast.stmt:
    """Return the statement to replace: with the test around it, where that only asks for the first piece."""
    match ctx.parent(node):
        case (
            ast.If(
                test=ast.Compare(left=ast.Name(id=asked), ops=[ast.Is()], comparators=[ast.Constant(value=None)]),
                body=[ast.Assign(targets=[ast.Name(id=begun)], value=first)],
                orelse=[other],
            ) as test
        ) if other is node and asked == begun == name and len(added) == 1:
            return test if ast.dump(first) == ast.dump(added[0]) else node
        case _:
            return node


def _is_beginning(statement: ast.stmt, name: str, from_none: bool) -> bool:
    match statement:
        case ast.Assign(targets=[ast.Name(id=target)], value=value):
            return target == name and _is_none(value) is from_none and not _mentions(value, name)
        case _:
            return False


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_alone(name: str, step: ast.stmt, statements: Sequence[ast.AST], ctx: Context) -> bool:
    """Say whether nothing but the step mentions a name in some statements, and no other scope does at all."""
    inside = {id(n) for n in walk(step)}
    loops = [part for s in statements for part in _until_after_loop(s, step, ctx)]
    used = any(isinstance(n, ast.Name) and n.id == name and id(n) not in inside for s in loops for n in walk(s))
    scope = ctx.function(step) or ctx.tree
    others = (n for n in walk(scope) if isinstance(n, _OTHER_SCOPES) and n is not scope)
    shared = any(isinstance(n, (ast.Global, ast.Nonlocal)) and name in n.names for n in walk(scope))
    return not used and not shared and not any(_mentions(other, name) for other in others)


def _until_after_loop(statement: ast.AST, step: ast.stmt, ctx: Context) -> list[ast.AST]:
    """Return a statement; of a ``with`` around the loop, what stands there up to the loop."""
    if isinstance(statement, ast.With) and any(n is step for n in walk(statement)):
        inner = next(s for s in statement.body if any(n is step for n in walk(s)))
        before: list[ast.AST] = [*statement.body[: statement.body.index(inner)]]
        return [*statement.items, *before, *_until_after_loop(inner, step, ctx)]
    return [statement]


def _mentions(root: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name for n in walk(root))


def _is_written_to(piece: ast.expr, scope: ast.AST) -> bool:
    """Say whether something that a piece is made of is written to: the list would then hold what comes later."""
    names = _names(piece)
    return any(_written(node) & names for node in walk(scope))


def changes(scope: ast.AST, name: str) -> bool:
    """Say whether a body writes into what a name stands for, or into what was made of it."""
    made = {name}
    for node in walk(scope):
        if isinstance(node, ast.Assign) and _names(node.value) & made:
            made |= {part for target in node.targets for part in bound_names(target)}
    return any(_written(node) & made for node in walk(scope))


def _written(node: ast.AST) -> set[str]:
    match node:
        case ast.AugAssign(target=target):
            return _names(target)
        case ast.Subscript(value=owner, ctx=ast.Store()):
            return _names(owner)
        case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method.endswith("_") and method[:1] != "_":
            return {name for part in (owner, *node.args[:1]) for name in _names(part)}
        case ast.keyword(arg="out", value=value):
            return _names(value)
        case _:
            return set()


def _names(node: ast.expr) -> set[str]:
    return {n.id for n in walk(node) if isinstance(n, ast.Name)}
