"""All differences of two sets in memory, only to get their distances: to be computed without the differences."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from drygrad.dryrun.fixes.site import Site
from drygrad.model import Edit, Fix
from drygrad.static.context import Context
from drygrad.static.syntax import block_of

_SQUARES, _ROOTS, _NORMS = ("pow", "square"), ("sqrt", "pow"), ("norm", "vector_norm")
_MODULES = ("torch", "torch.linalg")


class _Applied(NamedTuple):
    """An operation on an expression: its name, all of it, and what else it is given."""

    name: str
    whole: ast.expr
    args: list[ast.expr]
    keywords: dict[str, ast.expr]

    def number(self, position: int, *names: str) -> object:
        """Return a number that it is given; None where it is not a number, or not given."""
        found = next((self.keywords[name] for name in names if name in self.keywords), None)
        if found is None and position < len(self.args):
            found = self.args[position]
        try:
            return ast.literal_eval(found) if found is not None else None
        except ValueError:
            return None


def fixes(site: Site) -> Iterator[Fix | None]:
    """Yield the distances by ``torch.cdist`` for each difference in the statement that ran out of memory."""
    ranks, torch = site.sizes("ranks"), site.ctx.imported_as("torch")
    if site.finding.code != "DG507" or site.statement is None or not ranks or torch is None:
        return
    rank = max(ranks)
    for node in site.expressions(site.statement):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            pair = _pair(node, rank, ranks if site.expression is node and len(ranks) > 1 else [rank, rank])
            used, edits = _use(node, site.ctx)
            found = _distance(used, rank, site.ctx) if pair is not None and used is not None else None
            if pair is not None and found is not None:
                whole, behind, power = found
                left, right = (site.ctx.source_of(part) for part in pair)
                text = f"{torch}.cdist({left}, {right}{power}){behind}"
                title = "Use `torch.cdist`, which stores no differences"
                yield site.fix(title, *edits, site.ctx.replace(whole, text))


def _pair(node: ast.BinOp, rank: int, ranks: list[int]) -> tuple[ast.expr, ast.expr] | None:
    """Return the two sets whose differences these are, that of the rows first. ``ranks`` are those of both sides."""
    left, at = _set_apart(node.left, rank) if ranks[0] == rank else (node.left, rank - 3)
    right, other = _set_apart(node.right, rank) if ranks[1] == rank else (node.right, rank - 3)
    if min(ranks) < rank - 1 or left is None or right is None or rank < 3:
        return None
    if (at, other) == (rank - 2, rank - 3):
        return left, right
    return (right, left) if (at, other) == (rank - 3, rank - 2) else None


def _set_apart(node: ast.expr, rank: int) -> tuple[ast.expr | None, int]:
    """Return a set to which one dimension was added, and which one that is of so many."""
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr="unsqueeze"), args=[dim], keywords=[]):
            place = _literal(dim)
            return (value, place % rank) if isinstance(place, int) else (None, 0)
        case ast.Subscript(value=value, slice=index):
            parts = index.elts if isinstance(index, ast.Tuple) else [index]
        case _:
            return None, 0
    added = [n for n, part in enumerate(parts) if isinstance(part, ast.Constant) and part.value is None]
    rest = [part for n, part in enumerate(parts) if n not in added]
    if len(added) != 1 or not all(_is_whole(part) for part in rest):
        return None, 0
    behind = any(isinstance(part, ast.Constant) for part in parts[: added[0]])  # an ellipsis
    return value, rank - (len(parts) - added[0]) if behind else added[0]


def _is_whole(part: ast.expr) -> bool:
    match part:
        case ast.Slice(lower=None, upper=None, step=None):
            return True
        case ast.Constant(value=value):
            return value is ...
        case _:
            return False


def _literal(node: ast.expr) -> object:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _use(node: ast.expr, ctx: Context) -> tuple[ast.expr | None, list[Edit | None]]:
    """Return where the differences are used: they themselves, or the only use of their name, which then goes."""
    statement = ctx.statement(node)
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is node:
            scope = ctx.function(node) or ctx.tree
            names = [n for n in ast.walk(scope) if isinstance(n, ast.Name) and n.id == name]
            read = [n for n in names if isinstance(n.ctx, ast.Load)]
        case _:
            return node, []
    if len(names) != 2 or len(read) != 1 or ctx.statement(read[0]) not in block_of(ctx, statement):
        return None, []
    return read[0], [ctx.delete_statement(statement)]


def _distance(node: ast.expr, rank: int, ctx: Context) -> tuple[ast.expr, str, str] | None:
    """Return what makes distances of differences, with what follows cdist, and its power."""
    first = _applied(node, ctx)
    if first is None:
        return None
    if first.name in _NORMS and _is_last(first.number(1, "dim"), rank) and first.number(0, "p", "ord") in (None, 2):
        return None if "keepdim" in first.keywords else (first.whole, "", "")
    second = _applied(first.whole, ctx)
    if second is None or second.name != "sum" or second.keywords.keys() - {"dim"}:
        return None
    if not _is_last(second.number(0, "dim"), rank) or len(second.args) > 1:
        return None
    if first.name == "abs":
        return second.whole, "", ", p=1"
    if first.name not in _SQUARES or (first.name == "pow" and first.number(0, "exponent") != 2):
        return None
    third = _applied(second.whole, ctx)
    if third is not None and third.name in _ROOTS and (third.name == "sqrt" or third.number(0, "exponent") == 0.5):
        return third.whole, "", ""
    return second.whole, ".pow(2)", ""


def _is_last(dim: object, rank: int) -> bool:
    return dim in (-1, rank - 1)


def _applied(node: ast.expr, ctx: Context) -> _Applied | None:
    """Return the operation whose first operand an expression is, in any spelling."""
    parent = ctx.parent(node)
    match parent:
        case ast.BinOp(left=left, op=ast.Pow(), right=right) if left is node:
            return _Applied("pow", parent, [right], {})
        case ast.Attribute(value=value, attr=name) if value is node:
            call = ctx.parent(parent)
            return _called(call, name, call.args) if isinstance(call, ast.Call) and call.func is parent else None
        case ast.Call(func=ast.Attribute(attr=name) as function, args=[first, *rest]) if first is node:
            package = (ctx.name(function) or "").rpartition(".")[0]
            return _called(parent, name, rest) if package in _MODULES else None
        case _:
            return None


def _called(call: ast.Call, name: str, args: list[ast.expr]) -> _Applied:
    return _Applied(name, call, args, {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg})
