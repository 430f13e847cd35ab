"""Weaves calls into the user's syntax tree; every node keeps its position, so that errors stand where they stood.

The calls are names of builtins, which no program uses: what they do is in ``hooks``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, Union, cast

LOOP = "__drygrad_loop__"
BLOCK = "__drygrad_block__"
BLOCK_OF = "__drygrad_block_of__"
ASSIGNED = "__drygrad_assigned__"
RETURNED = "__drygrad_returned__"
SWALLOWED = "__drygrad_swallowed__"
NAMES = (LOOP, BLOCK, BLOCK_OF, ASSIGNED, RETURNED, SWALLOWED)

_Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]
_JUMPS = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_SUSPENDING = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)
"""What lets other code run in the midst of a loop."""
_SUITES = ("body", "orelse", "finalbody")
_TELLING = frozenset(
    "print debug info warning warn error exception critical log print_exc print_exception write".split()
)


def weave(tree: ast.Module, observe: bool, blocks_of: str | None = None) -> ast.Module:
    """Weave into a tree, in place. ``observe`` also tells the blocks that ran and what names were bound to.

    ``blocks_of`` is the file whose blocks are told, where it is not the target's.
    """
    _Weaver(observe, blocks_of).module(tree)
    return ast.fix_missing_locations(tree)


class _Weaver:
    def __init__(self, observe: bool, blocks_of: str | None) -> None:
        self._observe = observe
        self._blocks_of = blocks_of
        self._tells_blocks = observe or blocks_of is not None
        self._in_class = False

    def module(self, tree: ast.Module) -> None:
        tree.body = self._statements(tree.body)

    def _suite(self, body: list[ast.stmt], *before: ast.stmt, fails: bool = False) -> list[ast.stmt]:
        """Weave a block: what is told first, then its statements; one that ``fails`` may end after any of them."""
        first = body[0]
        told = [self._block(first)] if self._tells_blocks else []
        if _is_text(first):
            return [first, *told, *before, *self._statements(body[1:], fails)]
        return [*told, *before, *self._statements(body, fails)]

    def _statements(self, body: list[ast.stmt], fails: bool = False) -> list[ast.stmt]:
        woven: list[ast.stmt] = []
        for number, statement in enumerate(body):
            if self._tells_blocks and number and (fails or _may_leave(body[number - 1])):
                woven.append(self._block(statement))
            woven += self._statement(statement)
        return woven

    def _statement(self, node: ast.stmt) -> list[ast.stmt]:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return self._scope(node, in_class=False)
        if isinstance(node, ast.ClassDef):
            return self._scope(node, in_class=True)
        if isinstance(node, ast.For):
            return self._for(node)
        if isinstance(node, ast.While):
            return self._while(node)
        if isinstance(node, ast.Return):
            return [self._return(node)]
        bound = [name for target in _targets(node) for name in _names(target)]
        inside = isinstance(node, (ast.With, ast.AsyncWith))
        self._blocks(node, *(self._assigned(bound) if inside else ()))
        return [node] if inside else [node, *_at(node, self._assigned(bound))]

    def _scope(self, node: _Function | ast.ClassDef, in_class: bool) -> list[ast.stmt]:
        outside, self._in_class = self._in_class, in_class
        node.body = self._suite(node.body)
        self._in_class = outside
        return [node]

    def _blocks(self, node: ast.AST, *first: ast.stmt) -> None:
        """Weave the suites of a compound statement; ``first`` is told where its body begins."""
        for name in _SUITES:
            body = getattr(node, name, None)
            if isinstance(body, list) and body:
                fails = name == "body" and bool(getattr(node, "handlers", ()))
                told = first if name == "body" else ()
                setattr(node, name, self._suite(cast("list[ast.stmt]", body), *told, fails=fails))
        for handler in getattr(node, "handlers", ()):
            told = _at(handler.body[0], [_expression(_call(SWALLOWED))]) if _merely_tells(handler.body) else []
            handler.body = self._suite(handler.body, *told)
        for case in getattr(node, "cases", ()):
            case.body = self._suite(case.body)

    def _for(self, node: ast.For) -> list[ast.stmt]:
        told = map(ast.Constant, (node.lineno, _runs_out(node), not _holds(node, _SUSPENDING)))
        node.iter = ast.copy_location(_call(LOOP, node.iter, *told), node.iter)
        self._blocks(node, *self._assigned(list(_names(node.target))))
        return [node]

    def _while(self, node: ast.While) -> list[ast.stmt]:
        """``while test`` asks first whether it may go on, and tells when not; its own state is in a name of its own."""
        steady = not _holds(node, _SUSPENDING)
        self._blocks(node)
        if self._in_class:
            return [node]
        name = f"__drygrad_{node.lineno}_{node.col_offset}__"
        told = map(ast.Constant, (None, node.lineno, False, steady))
        begins = ast.Assign([ast.Name(name, ast.Store())], _call(LOOP, *told))
        more, over = (
            _call_of(ast.Attribute(ast.Name(name, ast.Load()), method, ast.Load())) for method in ("more", "over")
        )
        holds = ast.copy_location(ast.BoolOp(ast.Or(), [node.test, over]), node.test)
        node.test = ast.copy_location(ast.BoolOp(ast.And(), [more, holds]), node.test)
        return [*_at(node, [begins]), node]

    def _return(self, node: ast.Return) -> ast.Return:
        if self._observe and node.value is not None and not isinstance(node.value, ast.Constant):
            call = _call(RETURNED, ast.Constant(node.lineno), node.value)
            node.value = ast.copy_location(call, node.value)
        return node

    def _assigned(self, names: list[ast.Name]) -> list[ast.stmt]:
        """Return the calls that tell what names were bound to, each at its name, apart from the statements."""
        if not self._observe or self._in_class:
            return []
        return [ast.copy_location(_expression(_telling(name)), name) for name in names]

    def _block(self, first: ast.stmt) -> ast.stmt:
        line = ast.Constant(first.lineno)
        call = _call(BLOCK, line) if self._observe else _call(BLOCK_OF, ast.Constant(self._blocks_of), line)
        return _at(first, [_expression(call)])[0]


def _at(place: ast.stmt, statements: list[ast.stmt]) -> list[ast.stmt]:
    return [ast.copy_location(statement, place) for statement in statements]


def _expression(call: ast.expr) -> ast.stmt:
    return ast.Expr(call)


def _telling(name: ast.Name) -> ast.Call:
    return _call(ASSIGNED, *map(ast.Constant, (name.lineno, name.id)), ast.Name(name.id, ast.Load()))


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return _call_of(ast.Name(name, ast.Load()), *arguments)


def _call_of(function: ast.expr, *arguments: ast.expr) -> ast.Call:
    return ast.Call(function, list(arguments), [])


def _targets(node: ast.stmt) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    if isinstance(node, ast.AugAssign) or (isinstance(node, ast.AnnAssign) and node.value is not None):
        return [node.target]
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return [item.optional_vars for item in node.items if item.optional_vars is not None]
    return []


def _names(target: ast.expr) -> Iterator[ast.Name]:
    """Yield the names that a target binds; not those that it only looks into."""
    if isinstance(target, ast.Name):
        yield target
    elif isinstance(target, ast.Starred):
        yield from _names(target.value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            yield from _names(element)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _may_leave(node: ast.stmt) -> bool:
    """Say whether the statements after a compound one may be passed over because of a jump inside it."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return False
    return any(_is_jump(inner) for inner in _inside(node))


def _runs_out(loop: ast.For) -> bool:
    """Say whether a loop ends with its last element only, and nobody is told that it has ended."""
    return not loop.orelse and not _holds(loop, (ast.Return, ast.Raise, ast.Break, *_SUSPENDING))


def _holds(loop: ast.For | ast.While, kinds: tuple[type[ast.AST], ...]) -> bool:
    return any(isinstance(node, kinds) for part in loop.body for node in ast.walk(part))


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.excepthandler)) or type(child).__name__ == "match_case":
            yield child
            if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield from _inside(child)


def _is_jump(node: ast.AST) -> bool:
    return isinstance(node, _JUMPS)


def _merely_tells(body: list[ast.stmt]) -> bool:
    """Say whether a handler passes an error over: it prints, logs, goes on, and nothing else."""
    return all(_passes_over(statement) for statement in body)


def _passes_over(node: ast.stmt) -> bool:
    if isinstance(node, (ast.Pass, ast.Continue, ast.Break)):
        return True
    if not isinstance(node, ast.Expr):
        return False
    value: Any = node.value
    if isinstance(value, ast.Constant):
        return True
    if not isinstance(value, ast.Call):
        return False
    function = value.func
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    return name in _TELLING
