"""A wait for ever at a queue whose producer has ended without a word: to say so in the way that the consumer asks."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.dryrun.fixes.site import Site
from drygrad.model import Fix
from drygrad.static.context import Context
from drygrad.static.editing import inserted
from drygrad.static.syntax import block_of


def fixes(site: Site) -> Iterator[Fix | None]:
    """Yield the fix that puts None after what a producer goes through, where the consumer ends at None."""
    match site.statement:
        case (
            ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(func=ast.Attribute(value=queue, attr="get")),
            ) as statement
        ) if _ends_at_none(name, statement, site.ctx):
            text = site.ctx.text(queue)
        case _:
            return
    puts = [] if text is None else [*_puts(text, site.ctx)]
    loops = [site.ctx.loops(put) for put in puts]
    if not puts or not all(loops):
        return  # something is put outside of a loop: perhaps that is how it says so
    for loop in {id(around[-1]): around[-1] for around in loops}.values():
        if isinstance(loop, ast.For):
            line = inserted(site.ctx, loop, f"{text}.put(None)", after=True)
            yield site.fix("Put None after the loop to signal the end", line)


def _ends_at_none(name: str, statement: ast.stmt, ctx: Context) -> bool:
    """Say whether the statement behind one leaves where a name is None."""
    block = block_of(ctx, statement)
    following = block[block.index(statement) + 1 :][:1]
    match following:
        case [
            ast.If(
                test=ast.Compare(left=ast.Name(id=asked), ops=[ast.Is()], comparators=[ast.Constant(value=None)]),
                body=[ast.Return() | ast.Break()],
            )
        ]:
            return asked == name
        case _:
            return False


def _puts(queue: str, ctx: Context) -> Iterator[ast.Call]:
    for node in ctx.nodes(ast.Call):
        if (
            isinstance(node.func, ast.Attribute)
            and node.func.attr.startswith("put")
            and ctx.text(node.func.value) == queue
        ):
            yield node
