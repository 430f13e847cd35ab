"""Moving statements of a training loop: where a statement stands, and the edits that put it elsewhere."""

from __future__ import annotations

import ast

from drygrad.model import Edit, Position, Span
from drygrad.static.context import Context


def block_of(ctx: Context, statement: ast.stmt) -> list[ast.stmt]:
    """Return the list of statements that a statement stands in."""
    parent = ctx.parent(statement)
    blocks: list[list[ast.stmt] | None] = [getattr(parent, name, None) for name in ("body", "orelse", "finalbody")]
    return next((block for block in blocks if isinstance(block, list) and statement in block), [statement])


def beside(ctx: Context, statement: ast.stmt, other: ast.stmt) -> ast.stmt | None:
    """Return the statement that holds (or is) another one and stands in the same block as the first."""
    block = block_of(ctx, statement)
    if other in block:
        return other
    return next((a for a in ctx.ancestors(other) if isinstance(a, ast.stmt) and a in block), None)


def moved(ctx: Context, statement: ast.stmt, target: ast.stmt, *, after: bool = False) -> list[Edit | None]:
    """Return the edits that move a statement, its comment included, before or after another one of its block.

    One edit is None where they stand in different blocks or share lines with others.
    """
    if target not in block_of(ctx, statement) or not is_plain(ctx, statement) or not is_plain(ctx, target):
        return [None]
    start, end = ctx.source.start(statement), ctx.source.end(statement)
    line = ctx.source.line_text(end.line)
    whole = Span(start, Position(end.line, len(line.rstrip("\r\n"))))
    return [ctx.delete_statement(statement), ctx.insert_statement(target, ctx.source.slice(whole), after=after)]


def is_plain(ctx: Context, statement: ast.stmt) -> bool:
    """Say whether a statement has its lines for itself, so that others can be put before and after it."""
    start, end = ctx.source.start(statement), ctx.source.end(statement)
    rest = ctx.source.line_text(end.line)[end.column :].strip()
    return not ctx.source.line_text(start.line)[: start.column].strip() and rest[:1] in ("", "#")


def inserted(ctx: Context, statement: ast.stmt, text: str, *, after: bool = False) -> Edit | None:
    """Return the edit that puts a new statement before or after another one; None where lines are shared."""
    return ctx.insert_statement(statement, text, after=after) if is_plain(ctx, statement) else None
