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
