"""The repairs of loops over elements: the same for all of them, in one operation."""

from __future__ import annotations

import ast

from drygrad.model import Fix
from drygrad.static.context import Context
from drygrad.static.editing import as_operand, free_name
from drygrad.static.facts.values import UNKNOWN, Tensor
from drygrad.static.syntax import block_of

_REDUCES = frozenset({"sum", "max", "min"})


def counted(loop: ast.For, ctx: Context) -> Fix | None:
    """``for i, j in zip(a, b): matrix[i, j] += 1`` as one call that adds up what comes more than once."""
    match loop:
        case ast.For(
            body=[
                ast.AugAssign(
                    target=ast.Subscript(value=owner, slice=index), op=ast.Add() | ast.Sub() as sign, value=by
                )
            ],
            orelse=[],
        ):
            sources = _sources(loop)
            parts = index.elts if isinstance(index, ast.Tuple) else [index]
        case _:
            return None
    matrix, tensor = ctx.text(owner), ctx.tensor(owner)
    names = [_element(part) for part in parts]
    if matrix is None or tensor is None or not sources or not all(name in sources for name in names):
        return None
    if any(not _is_like(sources[name or ""], [*sources.values()], loop, ctx) for name in names):
        return None
    added = _added(by, matrix, "-" if isinstance(sign, ast.Sub) else "")
    where = [_index(sources[name or ""], matrix, tensor, ctx) for name in names]
    if added is None:
        return None
    indices = f"({', '.join(where)}{',' if len(where) == 1 else ''})"
    text = f"{matrix}.index_put_({indices}, {added}, accumulate=True)"
    return ctx.fix("Accumulate all of them in one call", ctx.replace(loop, text))


def _sources(loop: ast.For) -> dict[str, ast.expr]:
    """Return what the names of a loop's elements are taken from."""
    match loop:
        case ast.For(target=ast.Name(id=name), iter=source) if not isinstance(source, ast.Call):
            return {name: source}
        case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Attribute()) as source):
            return {name: source}
        case ast.For(target=ast.Tuple(elts=targets), iter=ast.Call(func=ast.Name(id="zip"), args=args, keywords=[])):
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            return dict(zip(names, args, strict=True)) if len(names) == len(targets) == len(args) else {}
        case _:
            return {}


def _element(part: ast.expr) -> str | None:
    """Return the name of the element that an index is: ``i``, ``int(i)`` or ``i.item()``."""
    match part:
        case ast.Name(id=name):
            return name
        case ast.Call(func=ast.Name(id="int"), args=[ast.Name(id=name)], keywords=[]):
            return name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="item"), args=[]):
            return name
        case _:
            return None


def _is_like(source: ast.expr, others: list[ast.expr], loop: ast.For, ctx: Context) -> bool:
    """Say whether what is gone through is a tensor, or was taken from one just as another one of them was."""
    if ctx.tensor(source) is not None:
        return True
    taken = _taken(source, loop, ctx)
    if ctx.value(source) is not UNKNOWN or taken is None:
        return False
    return any(ctx.tensor(other) is not None and _taken(other, loop, ctx) == taken for other in others)


def _taken(source: ast.expr, loop: ast.For, ctx: Context) -> str | None:
    """Return how a tensor was taken from another one: by which subscript."""
    block = block_of(ctx, loop)
    for statement in reversed(block[: block.index(loop)]):
        match statement, source:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)), ast.Name(id=name):
                pairs = zip(targets, values, strict=False)
            case ast.Assign(targets=[target], value=value), ast.Name(id=name):
                pairs = iter([(target, value)])
            case _:
                continue
        for target, value in pairs:
            if isinstance(target, ast.Name) and target.id == name:
                return ast.dump(value.slice) if isinstance(value, ast.Subscript) else None
    return None


def _index(source: ast.expr, matrix: str, tensor: Tensor, ctx: Context) -> str:
    text, known = as_operand(ctx, source), ctx.tensor(source)
    if known is None or known.dtype != "int64":
        text += ".long()"
    apart = known is not None and None not in (known.device, tensor.device) and known.device != tensor.device
    return f"{text}.to({matrix}.device)" if apart else text


def _added(by: ast.expr, matrix: str, sign: str) -> str | None:
    match by:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return f"{matrix}.new_tensor({sign}{number})"
        case _:
            return None


def masked(loop: ast.For, mask: ast.expr, length: str, part: ast.Slice, constant: ast.expr, ctx: Context) -> Fix | None:
    """``mask[i, : lengths[i]] = 1`` for every row, as one comparison of positions with lengths."""
    torch, text = ctx.imported_as("torch"), ctx.text(mask)
    if torch is None or text is None or loop.orelse or not _goes_through(loop, {length, text}, ctx):
        return None
    places = free_name(ctx, loop, "columns", "positions")
    if places is None:
        return None
    sign = "<" if part.lower is None else ">="
    counted = f"{places} = {torch}.arange({text}.shape[1], device={text}.device)"
    lengths = f"{torch}.as_tensor({length}, device={text}.device)[:, None]"
    written = f"{text}[{places} {sign} {lengths}] = {ctx.source_of(constant)}"
    margin = ctx.source.newline + ctx.source.indentation(loop.lineno)
    return ctx.fix("Write all rows at once", ctx.replace(loop, f"{counted}{margin}{written}"))


def _goes_through(loop: ast.For, rows: set[str], ctx: Context) -> bool:
    """Say whether a loop has a turn for each row of something."""
    match loop.iter:
        case ast.Call(func=ast.Name(id="enumerate"), args=[_], keywords=[]):
            return True
        case ast.Call(func=ast.Name(id="range"), args=[ast.Call(func=ast.Name(id="len"), args=[whole])]):
            return ctx.text(whole) in rows
        case ast.Call(
            func=ast.Name(id="range"),
            args=[ast.Subscript(value=ast.Attribute(value=whole, attr="shape"), slice=ast.Constant(value=0))],
        ):
            return ctx.text(whole) in rows
        case ast.Call(
            func=ast.Name(id="range"),
            args=[ast.Call(func=ast.Attribute(value=whole, attr="size"), args=[ast.Constant(value=0)])],
        ):
            return ctx.text(whole) in rows
        case _:
            return False


def reduced(node: ast.Call, name: str, given: ast.expr, ctx: Context) -> Fix | None:
    """``sum(x)`` of Python's as the tensor's own."""
    if name not in _REDUCES:
        return None
    return ctx.fix(f"Call `{name}` on the whole tensor", ctx.replace(node, f"{as_operand(ctx, given)}.{name}()"))
