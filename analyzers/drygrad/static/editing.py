"""Edits that rules have in common: arguments, operands, and statements that move."""

from __future__ import annotations

import ast
import re
from textwrap import dedent

from drygrad.model import Edit, Position, Span
from drygrad.static.context import Context
from drygrad.static.syntax import block_of, has_multiline_string
from drygrad.static.tree import walk

ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)
"""Expressions that bind tighter than any operator: ``.method()`` may follow them as they are."""

# -- expressions ------------------------------------------------------------------------------------------------


def as_operand(ctx: Context, node: ast.expr) -> str:
    """Return an expression's text such that ``.method()`` may follow."""
    text = ctx.source_of(node)
    return text if isinstance(node, ATOMS) else f"({text})"


def written_as(ctx: Context, name: str) -> str | None:
    """Return how the file can write a full name (``nn.Linear`` for ``torch.nn.Linear``); None where it cannot yet."""
    direct = ctx.imported_as(name)
    if direct is not None:
        return direct
    package, _, last = name.rpartition(".")
    prefix = written_as(ctx, package) if package else None
    return f"{prefix}.{last}" if prefix is not None else None


def as_buffer(ctx: Context, statement: ast.stmt | None, *, saved: bool = False) -> Edit | None:
    """Register the tensor that a module's constructor gives an attribute of ``self`` as a buffer.

    Checkpoints stay as they are, unless it is to be ``saved`` in them.
    None for another statement, and where ``Module.__init__`` has not run by then.
    """
    init = ctx.function(statement) if statement is not None else None
    match statement:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
            pass
        case ast.AnnAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=name), value=ast.expr() as value):
            pass
        case _:
            return None
    before = [s for s in init.body if s.lineno < statement.lineno] if isinstance(init, ast.FunctionDef) else []
    if not any("__init__(" in ast.unparse(s) for s in before):
        return None
    options = "" if saved else ", persistent=False"
    return ctx.replace(statement, f'self.register_buffer("{name}", {ctx.source_of(value)}{options})')


def binds_itself(ctx: Context, node: ast.expr, operand: ast.expr) -> bool:
    """Say whether a statement would bind a name to itself if an operand took the place of its value."""
    match ctx.parent(node), operand:
        case ast.Assign(targets=[ast.Name(id=name)]), ast.Name(id=same):
            return name == same
        case _:
            return False


# -- arguments --------------------------------------------------------------------------------------------------


def with_keyword(ctx: Context, call: ast.expr | None, name: str, value: str) -> Edit | None:
    """Give a call a keyword argument: in the place of its present value, else at the end, in the call's layout.

    None where there is no call, or nothing can follow its last argument: a bare generator, or a comment.
    """
    if not isinstance(call, ast.Call):
        return None
    for keyword in call.keywords:
        if keyword.arg == name:
            return ctx.replace(keyword.value, value)
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    if not arguments:
        end = ctx.source.end(call)
        before_parenthesis = Position(end.line, end.column - 1)
        return Edit(Span(before_parenthesis, before_parenthesis), f"{name}={value}")
    last = max(arguments, key=lambda argument: (argument.end_lineno or 0, argument.end_col_offset or 0))
    return None if isinstance(last, ast.GeneratorExp) else _appended(ctx, call, last, f"{name}={value}")


def _appended(ctx: Context, call: ast.Call, last: ast.expr, text: str) -> Edit | None:
    end = ctx.source.end(last)
    rest = ctx.source.slice(Span(end, ctx.source.end(call)))
    closing = re.match(r"(?P<own>(?:\s*\))*?)(?P<comma>\s*,)?(?P<space>\s*)\)$", rest)
    if closing is None:
        return None
    if closing["comma"] is None:
        place = ctx.source.position(ctx.source.offset(end) + closing.end("own"))
        return Edit(Span(place, place), f", {text}")
    place = ctx.source.position(ctx.source.offset(end) + closing.end("comma"))
    if "\n" in closing["space"]:
        indentation = ctx.source.indentation(last.lineno)
        return Edit(Span(place, place), f"{ctx.source.newline}{indentation}{text},")
    return Edit(Span(place, place), f" {text},")


# -- statements -------------------------------------------------------------------------------------------------


def beside(ctx: Context, statement: ast.stmt, other: ast.stmt) -> ast.stmt | None:
    """Return the statement that holds (or is) another one and stands in the same block as the first."""
    block = block_of(ctx, statement)
    if other in block:
        return other
    return next((a for a in ctx.ancestors(other) if isinstance(a, ast.stmt) and a in block), None)


def is_plain(ctx: Context, statement: ast.stmt) -> bool:
    """Say whether a statement has its lines for itself, so that others can be put before and after it."""
    start, end = ctx.source.start(statement), ctx.source.end(statement)
    rest = ctx.source.line_text(end.line)[end.column :].strip()
    return not ctx.source.line_text(start.line)[: start.column].strip() and rest[:1] in ("", "#")


def inserted(ctx: Context, statement: ast.stmt, text: str, *, after: bool = False) -> Edit | None:
    """Return the edit that puts a new statement before or after another one; None where lines are shared."""
    return ctx.insert_statement(statement, text, after=after) if is_plain(ctx, statement) else None


def moved(ctx: Context, statement: ast.stmt, target: ast.stmt, *, after: bool = False) -> list[Edit | None]:
    """Return the edits that move a statement, its comment included, before or after another one of its block.

    One edit is None where they stand in different blocks or share lines with others.
    """
    return moved_across(ctx, statement, target, after=after) if target in block_of(ctx, statement) else [None]


def moved_across(ctx: Context, statement: ast.stmt, target: ast.stmt, *, after: bool = False) -> list[Edit | None]:
    """Return the edits that move a statement, its comment included, before or after one of any block.

    One edit is None where they share lines with others, or a statement of several lines would be indented otherwise.
    """
    start, end = ctx.source.start(statement), ctx.source.end(statement)
    stays = statement.col_offset == target.col_offset or start.line == end.line
    if not stays or not is_plain(ctx, statement) or not is_plain(ctx, target):
        return [None]
    line = ctx.source.line_text(end.line)
    whole = Span(start, Position(end.line, len(line.rstrip("\r\n"))))
    return [ctx.delete_statement(statement), ctx.insert_statement(target, ctx.source.slice(whole), after=after)]


def put_under(ctx: Context, first: ast.stmt, last: ast.stmt, head: str, *foot: str) -> Edit | None:
    """Put the statements from one to another of its block under a header, and lines of its own level behind them.

    None where the statements share lines with others, or a string over several lines would change.
    """
    block = block_of(ctx, first)
    statements = block[block.index(first) : block.index(last) + 1] if last in block else []
    if not statements or not all(is_plain(ctx, s) and not has_multiline_string(s) for s in statements):
        return None
    margin, newline = ctx.source.indentation(first.lineno), ctx.source.newline
    start = min([first.lineno, *(d.lineno for d in getattr(first, "decorator_list", ()))])
    end = last.end_lineno or last.lineno
    lines = [ctx.source.line_text(line) for line in range(start, end + 1)]
    deeper = [unit_of(margin) + line if line.strip() else line for line in lines]
    text = newline.join([margin + head, *deeper, *(margin + line for line in foot)])
    return Edit(Span(Position(start, 0), Position(end, len(lines[-1]))), text)


def unwrapped(ctx: Context, block: ast.With) -> Edit | None:
    """Put what a ``with`` block holds in its place, a comment at its head included.

    None where the block has one line only, or a string over several lines would change.
    """
    first, last = block.body[0].lineno, block.end_lineno or block.lineno
    if first == block.lineno or has_multiline_string(block):
        return None
    lines = ctx.source.lines[block.lineno : last]
    comment = ctx.source.line_text(block.lineno).partition("#")[2]
    outer = ctx.source.indentation(block.lineno)
    head = f"{outer}#{comment}{ctx.source.newline}" if comment else ""
    body = "".join(outer + line if line.strip() else line for line in dedent("".join(lines)).splitlines(keepends=True))
    span = Span(Position(block.lineno, 0), Position(last, len(ctx.source.line_text(last))))
    return Edit(span, (head + body).rstrip("\r\n"))


def unit_of(indentation: str) -> str:
    """Return what one more level of indentation adds."""
    return "\t" if indentation.startswith("\t") else "    "


def free_name(ctx: Context, node: ast.AST, *wanted: str) -> str | None:
    """Return the first of some names that neither the function around a node nor the module uses."""
    scope = ctx.function(node) or ctx.tree
    used = {n.id for n in walk(scope) if isinstance(n, ast.Name)} | {*ctx.facts.globals}
    used |= {a.arg for a in walk(scope) if isinstance(a, ast.arg)}
    return next((name for name in wanted if name not in used), None)
