"""How much of a target has run: the lines of its statements, by the blocks that the worker saw begin."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from drygrad.dryrun.names import blocks
from drygrad.dryrun.plan import Plan
from drygrad.dryrun.result import Coverage, Result
from drygrad.static.statements import Lines, own_lines

_JUMPS = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SILENT = (ast.Global, ast.Nonlocal, ast.Pass)


def coverage(plan: Plan, result: Result) -> Coverage | None:
    """Return what a run that passed has covered of its function; None of a script, and of a run that ended early."""
    function = plan.target.function
    if function is None or result.outcome != "passed":
        return None
    ran, every = set[int](), set[int]()
    for line, block in _lines(function.body):
        every.add(line)
        if block in result.blocks:
            ran.add(line)
    return Coverage(frozenset(ran), frozenset(every - ran)) if ran else None


def executed(plan: Plan, result: Result) -> list[Lines]:
    """Return the lines of each statement that ran, as far as the worker tells: by blocks.

    What a module executes as it is imported is left out, unless it is the target. Where an error ended the run, what
    follows it in its block did not run.
    """
    tree, blocks, error = plan.source.tree, result.blocks, result.error.at if result.error is not None else None
    ended = error.line if error is not None and error.path == str(plan.path) else None
    functions = [node for node in ast.walk(tree) if isinstance(node, _SCOPES) and node.body[0].lineno in blocks]
    bodies = [node.body for node in functions] + ([tree.body] if plan.target.function is None else [])
    begun = {line: block for body in bodies for line, block in _lines(body) if block in blocks}
    last = begun.get(ended) if ended is not None else None
    ran = {line for line, block in begun.items() if ended is None or block != last or line <= ended}
    headers = {node.lineno for node in functions}
    statements = (node for node in ast.walk(tree) if isinstance(node, ast.stmt) and node.lineno in ran | headers)
    return sorted({own_lines(node, plan.source) for node in statements})


def _lines(body: Sequence[ast.stmt], fails: bool = False) -> Iterator[tuple[int, int]]:
    """Yield the line of each statement, with the line of the one at which the worker says that the code goes on."""
    begins = body[0].lineno
    for number, statement in enumerate(body):
        if number and (fails or _may_leave(body[number - 1])):
            begins = statement.lineno
        if not isinstance(statement, _SILENT) and not _is_text(statement):
            yield statement.lineno, begins
        for block in blocks(statement):
            if block:
                handled = isinstance(statement, ast.Try) and bool(statement.handlers)
                yield from _lines(block, handled and block is getattr(statement, "body", None))


def _may_leave(node: ast.stmt) -> bool:
    return not isinstance(node, _SCOPES) and any(isinstance(inner, _JUMPS) for inner in _inside(node))


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements in a compound one; of functions and classes in it only that they are there."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
            yield child
            if not isinstance(child, _SCOPES):
                yield from _inside(child)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
