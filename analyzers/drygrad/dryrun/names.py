"""Which names a statement reads and binds, by Python's scoping, and the blocks it has."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TypeAlias

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
_Loop: TypeAlias = ast.For | ast.AsyncFor | ast.While

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def bound_names(node: ast.AST) -> set[str]:
    """Return the names that a statement binds in its own scope, everything inside a compound one included."""
    return set(_bound(node))


def _bound(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Store):
            yield node.id
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
        return
    elif isinstance(node, ast.alias):
        if node.name != "*":
            yield node.asname or node.name.partition(".")[0]
    elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest
    elif isinstance(node, (*_COMPREHENSIONS, ast.Lambda)):
        yield from (n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr))
        return
    for child in ast.iter_child_nodes(node):
        yield from _bound(child)


def read_names(node: ast.AST) -> set[str]:
    """Return the names that a node reads from outside of the scopes in it; bodies of functions count."""
    return set(_read(node))


def _read(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        if not isinstance(node.ctx, ast.Store):
            yield node.id
        return
    if isinstance(node, _FUNCTIONS):
        yield from _read_by_heading(node)
        yield from free_names(node)
        return
    if isinstance(node, ast.ClassDef):
        yield from read_by_definition(node)
        yield from late_names(node)
        return
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        yield node.target.id
    inner = (name for child in ast.iter_child_nodes(node) for name in _read(child))
    if isinstance(node, _COMPREHENSIONS):
        local = {name for generator in node.generators for name in _bound(generator.target)}
        inner = (name for name in inner if name not in local)
    yield from inner


def free_names(function: FunctionNode | ast.Lambda) -> set[str]:
    """Return the names that the body of a function takes from outside."""
    arguments = function.args
    every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
    own = {argument.arg for argument in every if argument}
    body: list[ast.AST] = [function.body] if isinstance(function, ast.Lambda) else [*function.body]
    declared: set[str] = set()
    for statement in body:
        own |= bound_names(statement)
        declared |= {name for n in ast.walk(statement) if isinstance(n, (ast.Global, ast.Nonlocal)) for name in n.names}
    return {name for statement in body for name in _read(statement)} - own | declared


def read_by_definition(node: FunctionNode | ast.ClassDef) -> set[str]:
    """Return what executing a definition reads, without the bodies of its functions."""
    if not isinstance(node, ast.ClassDef):
        return set(_read_by_heading(node))
    heading = {name for part in (*node.decorator_list, *node.bases, *node.keywords) for name in _read(part)}
    return heading | _needed(node.body, set())


def late_names(node: ast.AST) -> set[str]:
    """Return what the functions that a statement defines will read when they are called."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return free_names(node)
    if isinstance(node, ast.ClassDef):
        return {name for statement in _opened(node.body) for name in late_names(statement)}
    return set()


def _opened(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a block, and those in compound ones that are no definitions."""
    for statement in body:
        yield statement
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for block in blocks(statement):
                yield from _opened(block)


def _at_once(node: ast.stmt) -> set[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return read_by_definition(node)
    return read_names(node)


def _read_by_heading(node: FunctionNode | ast.Lambda) -> Iterator[str]:
    arguments = node.args
    every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
    parts: list[ast.AST | None] = [*arguments.defaults, *arguments.kw_defaults, *(a.annotation for a in every if a)]
    if not isinstance(node, ast.Lambda):
        parts += [*node.decorator_list, node.returns]
    for part in parts:
        if part is not None:
            yield from _read(part)


# -- what a statement needs from before it --------------------------------------------------------------------


def needed_names(statement: ast.stmt) -> set[str]:
    """Return the names that must be bound before a statement runs; of a compound one, not those it binds first."""
    return _needed([statement], set())


def _needed(body: Iterable[ast.stmt], bound: set[str]) -> set[str]:
    """Return what a block needs; ``bound`` is what is bound by then, and grows with what the block surely binds."""
    found: set[str] = set()
    for statement in body:
        if isinstance(statement, (ast.For, ast.AsyncFor, ast.While)):
            found |= _needed_by_loop(statement, bound)
        elif isinstance(statement, (ast.With, ast.AsyncWith)):
            for item in statement.items:
                found |= read_names(item) - bound
                bound |= bound_names(item)
            found |= _needed(statement.body, bound)
        elif isinstance(statement, ast.If):
            found |= read_names(statement.test) - bound
            branches = [set(bound), set(bound)]
            found |= _needed(statement.body, branches[0]) | _needed(statement.orelse, branches[1])
            bound |= branches[0] & branches[1]
        elif isinstance(statement, (ast.Try, ast.Match)):
            found |= _needed_by_choice(statement, bound)
        else:
            found |= _at_once(statement) - bound
            bound |= bound_names(statement)
    return found


def _needed_by_loop(loop: _Loop, bound: set[str]) -> set[str]:
    inside = set(bound)
    if isinstance(loop, ast.While):
        found = read_names(loop.test) - bound
    else:
        found = (read_names(loop.iter) | read_names(loop.target)) - bound
        inside |= bound_names(loop.target)
    return found | _needed(loop.body, inside) | _needed(loop.orelse, set(bound))


def _needed_by_choice(statement: ast.Try | ast.Match, bound: set[str]) -> set[str]:
    """Return what ``try`` and ``match`` need, taking it that no branch is sure to run to its end."""
    if isinstance(statement, ast.Match):
        found = read_names(statement.subject) - bound
        for case in statement.cases:
            inside = bound | bound_names(case.pattern)
            found |= (read_names(case.guard) - inside) if case.guard else set()
            found |= _needed(case.body, inside)
        return found
    inside = set(bound)
    found = (
        _needed(statement.body, inside) | _needed(statement.orelse, inside) | _needed(statement.finalbody, set(bound))
    )
    for handler in statement.handlers:
        found |= read_names(handler.type) - bound if handler.type else set()
        found |= _needed(handler.body, bound | ({handler.name} if handler.name else set()))
    return found


def blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of a compound statement."""
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for inner in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield inner.body
