"""Where a fault happened, in the terms of the text: its statement, its operands, and where these came from."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from drygrad.dryrun.result import Fault, Place, Result
from drygrad.dryrun.wire import DTYPES
from drygrad.model import Edit, Finding, Fix, Position, Safety, Span
from drygrad.parsing import parsed_expression
from drygrad.static.context import Context, FunctionNode
from drygrad.static.conversions import converted, is_new, is_written_as
from drygrad.static.editing import inserted
from drygrad.static.source import Source
from drygrad.static.statements import statement_at
from drygrad.static.syntax import scope_of

_STEPS = 4
"""So many calls and assignments are followed back from an operand."""


@dataclass(frozen=True)
class Site:
    """One fault of a run in its text. ``path`` is the file of the text, as the worker calls it."""

    ctx: Context
    fault: Fault
    result: Result
    finding: Finding
    path: str

    # -- where ---------------------------------------------------------------------------------------------------

    @property
    def source(self) -> Source:
        """The text."""
        return self.ctx.source

    @cached_property
    def statement(self) -> ast.stmt | None:
        """The innermost statement at the fault, or where it is reported."""
        at = self.fault.at
        line = at.line if at is not None and at.path == self.path else self.finding.span.start.line
        return self.statement_at(line)

    def statement_at(self, line: int) -> ast.stmt | None:
        """Return the innermost statement around a line."""
        found = statement_at(self.ctx.tree, line)
        return found if isinstance(found, ast.stmt) else None

    @cached_property
    def expression(self) -> ast.expr | None:
        """The expression that the interpreter was executing, where it tells."""
        return self.expression_at(self.fault.at) if self.fault.at is not None else None

    def expression_at(self, at: Place) -> ast.expr | None:
        """Return the expression of this text at a place of the worker's."""
        statement = self.statement_at(at.line) if at.path == self.path else None
        expressions = self.expressions(statement) if statement is not None else ()
        return next((n for n in expressions if _is_at(n, at, self.source)), None)

    def expressions(self, statement: ast.stmt) -> Iterator[ast.expr]:
        """Yield the expressions of a statement from the outermost, in a compound one those of its header."""
        waiting: list[ast.AST] = [statement]
        while waiting:
            node = waiting.pop(0)
            if isinstance(node, ast.expr):
                yield node
            waiting += [
                child for child in ast.iter_child_nodes(node) if not isinstance(child, (ast.stmt, ast.ExceptHandler))
            ]

    @property
    def function(self) -> FunctionNode | None:
        """The function around the fault."""
        return self.ctx.function(self.statement) if self.statement is not None else None

    # -- operands ------------------------------------------------------------------------------------------------

    def fact(self, name: str) -> Any:
        """Return a fact that the worker gave for fixes."""
        return self.fault.facts.get(name)

    def written(self, text: object) -> ast.expr | None:
        """Return the expression of the fault's statement that is written so, nearest to where it happened."""
        if not isinstance(text, str) or self.statement is None:
            return None
        try:
            wanted = ast.unparse(parsed_expression(text))
        except SyntaxError:
            return None
        places = [*([self.expression] if self.expression is not None else []), *self.expressions(self.statement)]
        inner = [node for place in places for node in ast.walk(place) if isinstance(node, ast.expr)]
        return next((node for node in inner if ast.unparse(node) == wanted and not _is_called(node, self.ctx)), None)

    def dtype(self, name: str) -> str | None:
        """Return a fact that is the name of a dtype."""
        value = self.fact(name)
        return value if isinstance(value, str) and value in DTYPES else None

    def sizes(self, name: str) -> list[int] | None:
        """Return a fact that is a shape."""
        value = self.fact(name)
        if not isinstance(value, list):
            return None
        return [size for size in cast("list[object]", value) if isinstance(size, int)]

    @cached_property
    def operand(self) -> ast.expr | None:
        """The operand that the worker blames: where it was used, or the expression that made it."""
        found = self.written(self.fact("operand")) or self._by_role(self.fact("role"))
        statement = self.ctx.parent(found) if found is not None else None
        if isinstance(statement, ast.Assign) and found in statement.targets:
            return statement.value
        return self.expression if found is None and self.is_origin else found

    @property
    def is_origin(self) -> bool:
        """Whether the fault is told where it began, not where it was raised."""
        at, error = self.fault.at, self.result.error
        return at is not None and error is not None and error.at is not None and at.line != error.at.line

    def _by_role(self, role: object) -> ast.expr | None:
        """Return the operand of an operator or a call that torch calls so."""
        node = self.expression
        if isinstance(node, ast.BinOp):
            return {"other": node.right, "mat2": node.right, "input": node.left, "mat1": node.left}.get(str(role))
        return None

    def trail(self, node: ast.expr) -> Iterator[ast.expr]:
        """Yield an expression, and those that its value came from: what its name was bound to, what callers gave."""
        seen: list[ast.expr] = []
        while node not in seen and len(seen) < _STEPS:
            yield node
            seen.append(node)
            node = self.binding(node) or self._given(node) or node

    def binding(self, node: ast.expr) -> ast.expr | None:
        """Return what a name, or an attribute of self, was last bound to before an expression."""
        text = self.ctx.text(node)
        if text is None:
            return None
        found = self._bound(self._scope(node, text), text, node)
        return found or (self._bound(self.ctx.tree, text, node) if isinstance(node, ast.Name) else None)

    def _bound(self, around: ast.AST, text: str, node: ast.expr) -> ast.expr | None:
        """Return the last value that a scope binds to a name before an expression; to an attribute, anywhere."""
        home = around if isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef)) else None
        statements = (s for s in ast.walk(around) if isinstance(s, (ast.Assign, ast.AnnAssign)))
        values = [
            s.value
            for s in statements
            if s.value is not None and _binds(s, text, self.ctx) and (home or "." in text or not self.ctx.function(s))
        ]
        earlier = [value for value in values if value.lineno < node.lineno or isinstance(node, ast.Attribute)]
        return max(earlier, key=lambda value: value.lineno, default=None)

    def _scope(self, node: ast.expr, text: str) -> ast.AST:
        function = self.ctx.function(node)
        if "." in text and function is not None:
            owner = self.ctx.parent(function)
            return owner if isinstance(owner, ast.ClassDef) else function
        return function or self.ctx.tree

    def _given(self, node: ast.expr) -> ast.expr | None:
        """Return what the caller on the stack gave for a parameter."""
        function = self.ctx.function(node)
        if function is None or not isinstance(node, ast.Name):
            return None
        call = self._call_of(function)
        names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
        if call is None or node.id not in names:
            return None
        by_name = next((k.value for k in call.keywords if k.arg == node.id), None)
        place = names.index(node.id) - (1 if names[:1] in (["self"], ["cls"]) else 0)
        given = call.args[place] if 0 <= place < len(call.args) else None
        return by_name or (None if isinstance(given, ast.Starred) else given)

    def _call_of(self, function: FunctionNode) -> ast.Call | None:
        """Return the call on the stack that entered a function."""
        lines = [place.line for place in self.stack]
        inside = [i for i, line in enumerate(lines) if function.lineno <= line <= (function.end_lineno or line)]
        if not inside or inside[-1] + 1 >= len(lines):
            return None
        statement = self.statement_at(lines[inside[-1] + 1])
        calls = [n for n in self.expressions(statement) if isinstance(n, ast.Call)] if statement else []
        named = [c for c in calls if _last_name(c.func) == function.name]
        if named or function.name not in ("forward", "__call__"):
            return named[0] if named else None
        unknown = [c for c in calls if self.ctx.name(c.func) is None and _last_name(c.func) not in _METHODS]
        return unknown[-1] if unknown else None

    @property
    def stack(self) -> list[Place]:
        """The places on the stack in this file, the innermost first."""
        error = self.result.error
        return [place for place in error.stack if place.path == self.path] if error is not None else []

    # -- edits ---------------------------------------------------------------------------------------------------

    def with_call(self, node: ast.expr, call: str) -> Edit | None:
        """Return the edit that puts ``.call`` behind an expression; before the statement where that binds it anew.

        None where a write in place would no longer reach what it goes to.
        """
        if not isinstance(getattr(node, "ctx", None), ast.Store):
            return converted(self.ctx, node, call)
        if isinstance(node, ast.Name) and not self._is_own(node):
            return None
        text = self.ctx.source_of(node)
        return inserted(self.ctx, self.ctx.statement(node), f"{text} = {text}.{call}")

    def _is_own(self, name: ast.Name) -> bool:
        """Say whether a name stands for a tensor that its own function has made: nothing else need hold it."""
        bound = self.binding(name)
        return bound is not None and self.ctx.function(bound) is self.ctx.function(name) and is_new(self.ctx, bound)

    def rebound(self, node: ast.expr, call: str, safety: Safety) -> Fix | None:
        """Return the fix that changes a name's value before the statement, for what follows, too."""
        statement = self.ctx.statement(node)
        simple = isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return))
        if not simple or not isinstance(node, ast.Name):
            return None
        since = 0 if self.ctx.loops(node) else node.lineno  # what was written before is in the value
        if is_written_as(self.ctx, node.id, scope_of(node, self.ctx), since) and not self._is_own(node):
            return None
        edit = inserted(self.ctx, statement, f"{node.id} = {node.id}.{call}")
        return self.fix(f"Change `{node.id}` here, for everything that follows: `.{call}`", edit, safety=safety)

    def fix(self, title: str, *edits: Edit | None, safety: Safety = "unsafe") -> Fix | None:
        """Make a fix."""
        return self.ctx.fix(title, *edits, safety=safety)


_METHODS = frozenset("item backward mean sum long float to cpu cuda detach view reshape append zip enumerate".split())


def _is_at(node: ast.expr, at: Place, source: Source) -> bool:
    if at.column is None or at.end_line is None or at.end_column is None:
        return False
    return source.span(node) == Span(Position(at.line, at.column), Position(at.end_line, at.end_column))


def _is_called(node: ast.expr, ctx: Context) -> bool:
    parent = ctx.parent(node)
    return isinstance(parent, ast.Call) and parent.func is node


def _binds(statement: ast.Assign | ast.AnnAssign, text: str, ctx: Context) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return any(ctx.text(target) == text for target in targets)


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
