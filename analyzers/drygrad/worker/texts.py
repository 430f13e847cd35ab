"""The user's text as trees: each text is parsed once for all who look something up in it."""

from __future__ import annotations

import ast
from functools import lru_cache


@lru_cache(maxsize=16)
def tree_of(text: str) -> ast.Module:
    """Return the tree of a text; an empty one where it can't be parsed."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


@lru_cache(maxsize=256)
def function_at(text: str, first: int) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Return the function that begins in a line, with its decorators, as code objects count it."""
    functions = (n for n in ast.walk(tree_of(text)) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)))
    starts = ((node, min([node.lineno, *(d.lineno for d in node.decorator_list)])) for node in functions)
    return next((node for node, line in starts if line == first), None)


def class_with(tree: ast.Module, function: ast.AST) -> ast.ClassDef | None:
    """Return the class whose body has a function."""
    return next((n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and function in n.body), None)


def used_before(tree: ast.Module, name: str, line: int) -> ast.Name | None:
    """Return where a name is read first between its last binding before a line, and that line, in one function."""
    scope = scope_of(tree, line)
    names = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == name and n.lineno < line]
    mine = [n for n in names if scope_of(tree, n.lineno) is scope]
    bound = max((n.lineno for n in mine if isinstance(n.ctx, ast.Store)), default=0)
    read = (n for n in mine if isinstance(n.ctx, ast.Load) and n.lineno > bound)
    return min(read, key=lambda n: (n.lineno, n.col_offset), default=None)


def scope_of(tree: ast.Module, line: int) -> ast.AST:
    """Return the innermost function that a line is in, or the module."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    around = (n for n in ast.walk(tree) if isinstance(n, kinds) and n.lineno <= line <= (n.end_lineno or 0))
    return max(around, key=lambda n: n.lineno, default=tree)
