"""A whole data set moved to a device that has no room for it: to be moved part by part."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.dryrun.fixes.site import Site
from drygrad.model import Edit, Fix
from drygrad.static.context import Context
from drygrad.static.editing import as_operand
from drygrad.static.syntax import follows

_MOVES = ("to", "cuda")
_OF_THE_FORM = ("shape", "size", "dtype", "ndim", "dim", "numel")


def fixes(site: Site) -> Iterator[Fix | None]:
    """Yield the fix that moves each part where it is taken, for a set of which only parts are taken."""
    match site.statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) as statement:
            moved = _moved(value)
        case _:
            return
    scope = site.function or site.ctx.tree
    names = [n for n in ast.walk(scope) if isinstance(n, ast.Name) and n.id == name and follows(n, statement)]
    if moved is None or any(isinstance(n.ctx, ast.Store) for n in names if site.ctx.statement(n) is not statement):
        return
    whole, call = moved
    places = [_taken(n, site.ctx) for n in names if isinstance(n.ctx, ast.Load) and n is not whole]
    if not any(isinstance(place, ast.Subscript) for place in places) or None in places:
        return
    parts = [place for place in places if isinstance(place, ast.Subscript)]
    own = site.ctx.text(whole) == name
    begin = site.ctx.delete_statement(statement) if own else site.ctx.replace(value, site.ctx.source_of(whole))
    edits = [edit for part in parts for edit in _part_moved(part, call, site.ctx)]
    yield site.fix("Move each part to the device where it is used", begin, *edits)


def _moved(value: ast.expr) -> tuple[ast.expr, ast.Call] | None:
    """Return what an expression moves to a device, and the call that does."""
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute() as whole, attr=name)) if name in _MOVES:
            return whole, value
        case _:
            return None


def _taken(name: ast.Name, ctx: Context) -> ast.expr | None:
    """Return the part of a set that is taken, or what only asks for its form; None where all of it is used."""
    match ctx.parent(name):
        case ast.Subscript(value=owner, ctx=ast.Load()) as part if owner is name:
            return part
        case ast.Attribute(attr=attribute) as form if attribute in _OF_THE_FORM:
            return form
        case ast.Call(func=ast.Name(id="len")) as length:
            return length
        case _:
            return None


def _part_moved(part: ast.Subscript, call: ast.Call, ctx: Context) -> Iterator[Edit]:
    """Yield the edits that move a part, and leave its index on the CPU."""
    behind = ctx.source_of(call).removeprefix(ctx.source_of(call.func))
    assert isinstance(call.func, ast.Attribute)
    yield ctx.insert_after(part, f".{call.func.attr}{behind}")
    index = _moved_index(part.slice)
    if index is not None:
        yield ctx.replace(part.slice, as_operand(ctx, index))


def _moved_index(index: ast.expr) -> ast.expr | None:
    match index:
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _MOVES:
            return inner
        case _:
            return None
