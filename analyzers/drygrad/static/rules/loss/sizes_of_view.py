"""The sizes that a view asks for, beside those that the tensor has: which axes keep their place in memory."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from drygrad.static.context import Context
from drygrad.static.facts.containers import shape_owner
from drygrad.static.facts.frame import dotted_text
from drygrad.static.facts.values import Constant, Number, Tensor
from drygrad.static.syntax import body_nodes, follows, last_assignment, rebound_between, scope_of

ANY = "?"
"""A size of which nothing is known but that it is asked for by a name of its own, or left to torch (-1)."""
_VIEWS = frozenset({"view", "reshape"})
_CONVERTS = frozenset({"from_numpy", "as_tensor", "tensor", "ascontiguousarray", "asarray", "array"})
_CASTS = frozenset(
    "float to cuda cpu contiguous clone copy astype double half long byte int type div div_ mul "
    "mul_ sub sub_ add add_".split()
)
_CONVERSIONS = 4
UNKNOWN_SIZES = ""
"""Sizes of which nothing is known at all: any number of them, whose product may be anything."""


@dataclass(frozen=True)
class Layout:
    """The sizes before and after a view; a product counts as its factors, a size of one as none."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    joined: frozenset[str]
    """The sizes that the result has as factors of a product only: in which order it is written means nothing."""
    order: tuple[int, ...] | None
    """Where each axis of the result was before, if the view asks for the same axes in another order."""

    def moved(self) -> str | None:
        """Return a size whose axis surely steps over other elements than before; None where none does.

        An axis keeps its meaning if as many elements stand before it, or behind it, as stood there.
        """
        for size, count in Counter(self.before).items():
            if size in (ANY, UNKNOWN_SIZES, *self.joined) or size.isdigit():
                continue
            if count > 1 or self.after.count(size) != 1:
                continue
            i, j = self.before.index(size), self.after.index(size)
            outer, inner = (self.before[:i], self.after[:j]), (self.before[i + 1 :], self.after[j + 1 :])
            if (_surely_differ(*outer) and not _equal(*inner)) or (_surely_differ(*inner) and not _equal(*outer)):
                return size
        return None


def _equal(first: tuple[str, ...], second: tuple[str, ...]) -> bool:
    return Counter(first) == Counter(second) and UNKNOWN_SIZES not in (*first, *second) and ANY not in first


def _surely_differ(first: tuple[str, ...], second: tuple[str, ...]) -> bool:
    """Say whether two products are unequal: what is left when common factors are gone stands on one side only."""
    if UNKNOWN_SIZES in (*first, *second) or ANY in first:
        return False
    more, less = Counter(second), Counter(first)
    common = more & less
    more, less = more - common, less - common
    return bool(more) != bool(less)


@dataclass(frozen=True)
class View:
    """A call of ``view`` or ``reshape``: what is laid out anew, and the expressions of the sizes."""

    node: ast.Call
    operation: str
    receiver: ast.expr
    sizes: tuple[ast.expr, ...]


def view_of(node: ast.Call, ctx: Context) -> View | None:
    """Return the view that a call makes of a tensor or array; None for any other call."""
    call = ctx.call(node)
    if call is not None:
        if call.operation not in _VIEWS or not call.operands:
            return None
        given = [*call.operands[1:], *(v for k, v in call.keywords.items() if k in ("shape", "size"))]
        receiver, operation = call.operands[0], call.operation
    elif isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS and not node.keywords:
        receiver, operation, given = node.func.value, node.func.attr, node.args
    else:
        return None
    if len(given) == 1 and isinstance(given[0], (ast.Tuple, ast.List)):
        given = given[0].elts
    starred = any(isinstance(argument, ast.Starred) for argument in (*given, *node.args))
    return None if starred or not given else View(node, operation, receiver, tuple(given))


def layout_of(view: View, ctx: Context) -> Layout | None:
    """Return the sizes before and after a view; None where those before are unknown."""
    before = _known_sizes(ctx.tensor(view.receiver))
    names: dict[str, str] = {}
    if before is None:
        names = _sizes_of_name(view.receiver, view.node, ctx) or _own_axes(view)
        before = tuple(names.values())
    if not before:
        return None
    after = [tuple(_factors(size, names, ctx)) for size in view.sizes]
    order = _order(before, [each[0] for each in after]) if all(len(each) == 1 for each in after) else None
    flat = tuple(_without_ones(size for each in after for size in each))
    joined = frozenset(size for each in after if len(each) > 1 for size in each)
    return Layout(tuple(_without_ones(before)), flat, joined, order)


def _order(before: Sequence[str], after: Sequence[str]) -> tuple[int, ...] | None:
    """Return where each axis was before; one size unknown on either side must be the same, as the products are."""
    open_after = [size for size in after if size in (ANY, UNKNOWN_SIZES)]
    if open_after and (len(open_after) > 1 or before.count(UNKNOWN_SIZES) != 1):
        return None
    wanted = [UNKNOWN_SIZES if size in open_after else size for size in after]
    same = sorted(wanted) == sorted(before) and len(set(before)) == len(before)
    return tuple(before.index(size) for size in wanted) if same else None


def _without_ones(sizes: Iterable[str]) -> Iterator[str]:
    return (size for size in sizes if size != "1")


def _known_sizes(tensor: Tensor | None) -> tuple[str, ...] | None:
    if tensor is None or tensor.shape is None or not any(isinstance(size, str) for size in tensor.shape):
        return None
    return tuple(UNKNOWN_SIZES if size is None else str(size) for size in tensor.shape)


def _factors(size: ast.expr, names: dict[str, str], ctx: Context) -> Iterator[str]:
    """Yield the factors of a size."""
    text = dotted_text(size)
    named = text or ast.unparse(size) if names else None
    if named in names:
        yield names[named]
        return
    match ctx.value(size):
        case Constant(value=-1):
            yield ANY
        case Constant(value=int(number)):
            yield str(number)
        case Number(symbol=str(symbol)):
            yield symbol
        case _:
            if isinstance(size, ast.BinOp) and isinstance(size.op, ast.Mult):
                yield from _factors(size.left, names, ctx)
                yield from _factors(size.right, names, ctx)
            else:
                yield ANY if text is not None else UNKNOWN_SIZES


def _sizes_of_name(receiver: ast.expr, node: ast.Call, ctx: Context) -> dict[str, str] | None:
    """Return the names that ``a, b, c = x.shape`` gives to the sizes of x, in order, where both still hold.

    Where x was made of an array or tensor of the same sizes, these may be the names of that one's.
    """
    place: ast.AST = node
    for _ in range(_CONVERSIONS):
        base = _of_same_sizes(receiver)
        text = dotted_text(base)
        found = _unpacked(text, place, ctx) if text is not None else None
        before = last_assignment(ctx, text, ctx.statement(place)) if text is not None else None
        if found is not None or before is None:
            return found
        receiver, place = before, before
    return None


def _own_axes(view: View) -> dict[str, str]:
    """Return the axes that a view asks for as ``x.shape[1]`` or ``x.size(1)`` of what it lays out, if it asks for all.

    Nothing for a view that leaves one out: that one may well be 1.
    """
    owner = dotted_text(view.receiver)
    axes = {axis: ast.unparse(size) for size in view.sizes if (axis := _axis(size, owner)) is not None}
    if len(axes) < 2 or sorted(axes) != [*range(len(axes))]:
        return {}
    names = {axes[axis]: f"{owner}.shape[{axis}]" for axis in sorted(axes)}
    return names if len(axes) == len(view.sizes) else names | {"": UNKNOWN_SIZES}


def _axis(size: ast.expr, owner: str | None) -> int | None:
    match size:
        case ast.Subscript(value=ast.Attribute(value=base, attr="shape"), slice=ast.Constant(value=int(axis))):
            pass
        case ast.Call(func=ast.Attribute(value=base, attr="size"), args=[ast.Constant(value=int(axis))]):
            pass
        case _:
            return None
    return axis if owner is not None and dotted_text(base) == owner else None


def _of_same_sizes(node: ast.expr) -> ast.expr:
    """Return what an expression converts without a change of its sizes."""
    while True:
        match node:
            case ast.Call(func=ast.Attribute(attr=name), args=[inner, *_]) if name in _CONVERTS:
                node = inner
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _CASTS:
                node = inner
            case ast.BinOp(left=inner, right=ast.Constant()):
                node = inner
            case _:
                return node


def _unpacked(text: str, node: ast.AST, ctx: Context) -> dict[str, str] | None:
    scope = scope_of(node, ctx)
    found: dict[str, str] | None = None
    for statement in body_nodes(scope):
        match statement:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=value) if shape_owner(value) == text:
                pass
            case _:
                continue
        kept = [name.id for name in names if isinstance(name, ast.Name)]
        if len(kept) != len(names) or not follows(node, statement):
            continue
        if any(rebound_between(name, statement, ctx.statement(node), scope) for name in (text, *kept)):
            continue
        found = {f"_{i}" if n == "_" else n: UNKNOWN_SIZES if n == "_" else n for i, n in enumerate(kept)}
    return found
