"""Where a program counts on an error: a finding there would tell its author what he knows."""

from __future__ import annotations

import ast

from drygrad.static.context import Context

_RAISED_BY_TORCH = frozenset({"RuntimeError", "ValueError", "IndexError", "TypeError", "Exception", "BaseException"})
_REPORTS = frozenset(
    "print debug info warning warn error exception critical log print_exc print_exception format_exc write".split()
)
"""What a handler calls that only tells of the error."""


def is_expected(node: ast.AST, ctx: Context) -> bool:
    """Say whether an error at a node is tried out: under ``pytest.raises``, or where a handler makes something of it.

    A handler that merely prints, logs or passes over an error expects none.
    """
    inner = node
    for ancestor in ctx.ancestors(node):
        if isinstance(ancestor, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return False
        if isinstance(ancestor, (ast.With, ast.AsyncWith)) and any(map(expects_error, ancestor.items)):
            return True
        if isinstance(ancestor, ast.Try) and inner in ancestor.body and any(map(_handles, ancestor.handlers)):
            return True
        inner = ancestor
    return False


def expects_error(item: ast.withitem) -> bool:
    """Say whether a context manager is ``pytest.raises``, ``self.assertRaises``, ``suppress`` or the like."""
    manager = ast.unparse(item.context_expr).lower()
    return "raises" in manager or "suppress" in manager


def _handles(handler: ast.ExceptHandler) -> bool:
    caught = (
        [] if handler.type is None else [n for n in ast.walk(handler.type) if isinstance(n, (ast.Name, ast.Attribute))]
    )
    names = {node.id if isinstance(node, ast.Name) else node.attr for node in caught}
    return (not caught or not names.isdisjoint(_RAISED_BY_TORCH)) and not all(map(_only_reports, handler.body))


def _only_reports(statement: ast.stmt) -> bool:
    """Say whether a statement of a handler leaves the error without consequence: ``pass``, a print, a log."""
    match statement:
        case ast.Pass() | ast.Raise():
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name))):
            return name in _REPORTS
        case _:
            return False
