"""What the top-level code of a text does: declare, or run something."""

from __future__ import annotations

import ast

_DECLARING_CALLS = frozenset(
    "getLogger TypeVar ParamSpec NewType namedtuple NamedTuple Path device compile get_logger Literal".split()
)


def runs_something(tree: ast.Module) -> bool:
    """Say whether a text is one that is run, rather than merely imported."""
    return any(is_main_block(statement) or acts(statement) for statement in tree.body)


def is_main_block(node: ast.AST) -> bool:
    """Say whether a statement is ``if __name__ == "__main__":``."""
    if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare) or len(node.test.comparators) != 1:
        return False
    sides = {ast.unparse(side) for side in (node.test.left, node.test.comparators[0])}
    return isinstance(node.test.ops[0], ast.Eq) and sides == {"__name__", "'__main__'"}


def acts(statement: ast.stmt) -> bool:
    """Say whether a top-level statement does more than declare: it calls, loops, or computes."""
    if isinstance(statement, ast.Expr):
        return not isinstance(statement.value, ast.Constant)
    if isinstance(statement, (ast.For, ast.AsyncFor, ast.While, ast.With, ast.AugAssign, ast.Assert)):
        return True
    if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
        calls = [node for node in ast.walk(statement.value) if isinstance(node, ast.Call)]
        return any(ast.unparse(call.func).rpartition(".")[2] not in _DECLARING_CALLS for call in calls)
    return False
