"""The fixtures of pytest in a file, and what they give."""

from __future__ import annotations

import ast

from drygrad.dryrun.inputs.arguments import FunctionNode


def fixtures_in(tree: ast.Module) -> dict[str, FunctionNode]:
    """Return the fixtures that a file defines at top level, by the names that tests take them by."""
    found = (s for s in tree.body if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return {name: node for node in found if (name := _fixture_name(node))}


def _fixture_name(node: FunctionNode) -> str | None:
    for decorator in node.decorator_list:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if ast.unparse(called).rpartition(".")[2] == "fixture":
            named = keyword_of(decorator, "name")
            return str(named.value) if isinstance(named, ast.Constant) else node.name
    return None


def keyword_of(call: ast.expr, name: str) -> ast.expr | None:
    """Return what a call, such as a decorator, passes by a name."""
    keywords = call.keywords if isinstance(call, ast.Call) else ()
    return next((keyword.value for keyword in keywords if keyword.arg == name), None)


def given_by(statement: ast.stmt) -> ast.expr | None:
    """Return what a statement of a fixture gives to the test."""
    if isinstance(statement, ast.Return):
        return statement.value
    inner = statement.value if isinstance(statement, ast.Expr) else None
    return inner.value if isinstance(inner, ast.Yield) else None
