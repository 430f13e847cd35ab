"""Inputs that a comment gives: ``# dry-run: x=torch.randn(8, 10), device="cuda"``.

It stands above a function and its decorators, or, for a script, before the first statement. What follows the colon are
the arguments of a call; following ``#`` lines belong to it until its brackets balance. Several comments are several
runs; ``# dry-run: skip`` leaves the function out. The flag ``--inputs`` has the same grammar.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

from drygrad.dryrun.inputs.arguments import Argument, Problem
from drygrad.model import Edit, Position, Span
from drygrad.parsing import parsed_expression
from drygrad.static.source import Source
from drygrad.static.statements import first_line

_COMMENT = re.compile(r"(?P<indent>[ \t\f]*#[ \t]*)dry-run:[ \t]*")
_CONTINUATION = re.compile(r"[ \t\f]*#[ \t]?")


@dataclass(frozen=True)
class InputsComment:
    """One comment: its span, and its text padded such that lines and columns are those of the file."""

    first: int
    lines: tuple[str, ...]
    span: Span

    @property
    def skip(self) -> bool:
        """Whether the comment asks not to run the function."""
        return self.text == "skip"

    @property
    def text(self) -> str:
        """What the comment says, without the padding."""
        return "\n".join(self.lines).strip()

    def arguments(self) -> tuple[Argument, ...] | Problem:
        """Return the arguments, in the order of evaluation."""
        return read_arguments(self.lines, "comment", self.first, self.span)


def comments_above(source: Source, node: ast.stmt) -> list[InputsComment]:
    """Return the comments in the lines directly above a statement and its decorators."""
    last = first_line(node) - 1
    first = last
    while first >= 1 and source.line_text(first).lstrip().startswith("#"):
        first -= 1
    return list(_comments(source, first + 1, last))


def comments_of_script(source: Source) -> list[InputsComment]:
    """Return the comments before the first statement (a docstring apart) that belong to no function."""
    first = 1
    for statement in source.tree.body:
        if _is_docstring(statement):
            first = (statement.end_lineno or 1) + 1
            continue
        own = comments_above(source, statement) if hasattr(statement, "decorator_list") else []
        taken = {comment.first for comment in own}
        return [c for c in _comments(source, first, first_line(statement) - 1) if c.first not in taken]
    return list(_comments(source, first, len(source.lines)))


def comment_edit(source: Source, function: ast.stmt | None, text: str) -> Edit:
    """Return the edit that writes a comment above a function and its decorators, or, for a script, on top."""
    line = first_line(function) if function else 1
    indentation = source.indentation(line) if function else ""
    one_line = " ".join(text.splitlines())  # another line would be code
    return Edit(Span.of(line, 0, line, 0), f"{indentation}{one_line}{source.newline}")


def written_comment(source: Source, function: ast.stmt | None, inputs: str, number: int) -> Edit:
    """Return the edit that writes inputs as a comment, in the place of the one of that number where there is one."""
    comments = comments_above(source, function) if function else comments_of_script(source)
    text = f"# dry-run: {' '.join(inputs.splitlines())}"
    given = [comment for comment in comments if not comment.skip]
    return Edit(given[number].span, text) if number < len(given) else comment_edit(source, function, text)


def read_flag(text: str) -> tuple[Argument, ...] | Problem:
    """Return the arguments that ``--inputs`` gives; the span of a problem counts in the flag's own text."""
    lines = tuple(text.splitlines()) or ("",)
    return read_arguments(lines, "flag", 1, Span.of(1, 0, len(lines), len(lines[-1])))


def read_arguments(lines: tuple[str, ...], origin: str, first: int, span: Span) -> tuple[Argument, ...] | Problem:
    """Parse arguments of a call that begin in the line ``first`` of a file."""
    framed = Source("\n".join(("_(", *lines, ")")))
    try:
        call = parsed_expression(framed.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return _unparsable(error, lines, first, span)
    if not isinstance(call, ast.Call) or call.end_lineno != len(lines) + 2:
        return Problem("the inputs are not call arguments: unbalanced brackets", span)
    found: list[Argument] = []
    for node in sorted((*call.args, *call.keywords), key=lambda n: (n.lineno, n.col_offset)):
        value = node.value if isinstance(node, (ast.keyword, ast.Starred)) else node
        if not isinstance(node, (ast.keyword, ast.Starred)):
            place = framed.span(node).shifted(first - 2)
            return Problem(f"write inputs as `name=value`: `{framed.segment(node)}` has no name", place)
        start = framed.start(value)
        found.append(
            Argument(
                node.arg if isinstance(node, ast.keyword) else None,
                _evaluable(framed.segment(value)),
                origin,
                "*" if isinstance(node, ast.Starred) else "" if node.arg else "**",
                start.line + first - 2 if origin == "comment" else None,
                start.column if origin == "comment" else None,
            )
        )
    return tuple(found)


def _evaluable(text: str) -> str:
    """Return a text that Python can evaluate by itself; brackets around it may have held its lines together."""
    return f"({text})" if "\n" in text else text


def _unparsable(error: Exception, lines: tuple[str, ...], first: int, span: Span) -> Problem:
    if not isinstance(error, SyntaxError):
        return Problem("the inputs cannot be parsed: they are nested too deeply", span)
    number = (error.lineno or 2) - 2
    message = f"the inputs cannot be parsed: {error.msg}"
    if not 0 <= number < len(lines):
        return Problem("the inputs cannot be parsed: unbalanced brackets", span)
    column = min(max((error.offset or 1) - 1, 0), max(len(lines[number].rstrip()) - 1, 0))
    return Problem(message, Span.of(first + number, column, first + number, column + 1))


def _comments(source: Source, first: int, last: int) -> Iterator[InputsComment]:
    line = first
    while line <= last:
        match = _COMMENT.match(source.line_text(line))
        if match is None:
            line += 1
            continue
        lines = [" " * match.end() + source.line_text(line)[match.end() :]]
        while _depth(lines) > 0 and line + len(lines) <= last:
            following = source.line_text(line + len(lines))
            if _COMMENT.match(following) or not (more := _CONTINUATION.match(following)):
                break
            lines.append(" " * more.end() + following[more.end() :])
        end = line + len(lines) - 1
        start = Position(line, len(match["indent"].rstrip(" \t")) - 1)
        yield InputsComment(line, tuple(lines), Span(start, Position(end, len(source.line_text(end).rstrip()))))
        line = end + 1


def _depth(lines: list[str]) -> int:
    """Return how many brackets are open at the end of the lines."""
    depth = 0
    text = "\n".join(("(", *lines)) + "\n"
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.OP:
                depth += (token.string in "([{") - (token.string in ")]}")
    except (tokenize.TokenError, SyntaxError):
        return depth - 1  # the end of the text is inside the bracket that was put before it
    return depth - 1


def _is_docstring(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
