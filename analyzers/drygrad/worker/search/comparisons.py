"""What the code that raised compares or unpacks: ``assert h == self.size``, ``if n % p: raise``, ``b, c = x.shape``."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from functools import lru_cache
from types import FrameType
from typing import Any, cast

from drygrad.worker.search.lacking import OFFERED
from drygrad.worker.search.quiet import quiet
from drygrad.worker.search.trial import Failure
from drygrad.worker.search.want import Want

_EQUAL = (ast.Eq, ast.NotEq, ast.LtE, ast.GtE, ast.Lt, ast.Gt, ast.Is, ast.IsNot)
_FRAMES = 3
_MOST_CHOICES = 9


def compared(failure: Failure) -> Iterator[Want]:
    """Yield what would make the sides of the comparison alike that led to an error raised in Python."""
    for trace in failure.frames()[:_FRAMES]:
        frame = trace.tb_frame
        test = test_of(frame.f_code.co_filename, trace.tb_lineno)
        if test is not None:
            for node in ast.walk(test):
                if isinstance(node, ast.Compare) and isinstance(node.ops[0], _EQUAL):
                    yield from _sides(node, frame)
                elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
                    yield from _divided(node, frame)
                elif isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                    yield Want("other", text="")
            return


def distinguished_by(failure: Failure) -> Iterator[Want]:
    """Yield the texts that the code which failed compares its own with, or looks up: ``if mode == "sum": ... else``."""
    if not isinstance(failure.error, (ValueError, LookupError, NotImplementedError, AssertionError, AttributeError)):
        return
    for trace in failure.frames()[:_FRAMES]:
        frame = trace.tb_frame
        known: dict[str, dict[str, None]] = {}
        for tested, texts in _texts_beside(frame, trace.tb_lineno):
            value = value_of(tested, frame)
            if isinstance(value, str):
                known.setdefault(value, {}).update(dict.fromkeys(text for text in texts if text != value))
        for value, choices in known.items():
            if choices:
                yield Want("choice", text=value, choices=tuple(choices)[:_MOST_CHOICES], why=OFFERED)


def _texts_beside(frame: FrameType, line: int) -> Iterator[tuple[ast.expr, list[str]]]:
    """Yield expressions of a function with the texts that it tells them from, in the order of the text."""
    around = _function(frame.f_code.co_filename, frame.f_code.co_firstlineno, line)
    for node in ast.walk(around) if around is not None else ():
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            left, right = node.left, node.comparators[0]
            if isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
                yield from ((one, _texts(other)) for one, other in ((left, right), (right, left)) if _texts(other))
            elif isinstance(node.ops[0], (ast.In, ast.NotIn)):
                yield left, _texts(right) or _texts_in(value_of(right, frame))
        elif isinstance(node, ast.Subscript) and node.lineno <= line <= (node.end_lineno or line):
            yield node.slice, _texts_in(value_of(node.value, frame))


def _texts(node: ast.expr) -> list[str]:
    """Return the texts that are written out, one or several."""
    parts = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node]
    return [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def _texts_in(held: Any) -> list[str]:
    """Return the texts among the items of a plain container, or the keys of a mapping."""
    if not isinstance(held, (dict, list, tuple, set, frozenset)):
        return []
    return [item for item in cast("list[Any]", [*held]) if isinstance(item, str)]


@lru_cache(maxsize=256)
def _function(path: str, first: int, line: int) -> ast.stmt | None:
    """Return the function that begins at a line, decorators included, and has another line in it."""
    functions = (node for node in _nodes(path) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    for node in functions:
        begins = min(part.lineno for part in (node, *node.decorator_list))
        if begins == first and line <= (node.end_lineno or 0):
            return node
    return None


def unpacked(failure: Failure) -> Iterator[Want]:
    """Yield the rank that unpacking a shape asks for, with the parts that the shape belongs to."""
    if not isinstance(failure.error, ValueError) or "to unpack" not in str(failure.error):
        return
    trace = failure.frames()[0]
    statement = _statement(trace.tb_frame.f_code.co_filename, trace.tb_lineno, (ast.Assign,))
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if isinstance(target, (ast.Tuple, ast.List)):
        starred = any(isinstance(e, ast.Starred) for e in target.elts)
        yield Want("rank", len(target.elts) - starred, why=f"its shape is unpacked into {len(target.elts)} names")


def _sides(node: ast.Compare, frame: FrameType) -> Iterator[Want]:
    left, right = value_of(node.left, frame), value_of(node.comparators[0], frame)
    why = f"{ast.unparse(node)[:60]} is checked"
    for got, want in _pairs(left, right):
        if ast.unparse(node.left).endswith(("ndim", "dim()")) or "len(" in ast.unparse(node.left):
            yield Want("rank", want, got, why=why)
        if got != want:
            yield Want("size", want, got, why=why)
            yield Want("size", got, want, why=why)
        if isinstance(node.ops[0], (ast.LtE, ast.Lt, ast.GtE, ast.Gt)):
            yield Want("larger", why=why)
    if isinstance(left, bool) or left is None or isinstance(right, bool) or right is None:
        yield Want("other", text="")


def _divided(node: ast.BinOp, frame: FrameType) -> Iterator[Want]:
    got, divisor = value_of(node.left, frame), value_of(node.right, frame)
    if type(got) is int and type(divisor) is int and divisor:
        why = f"it must be divisible by {divisor}"
        yield Want("size", divisor, got, multiple=True, why=why)
        yield Want("size", got, divisor, why=why)


def _pairs(left: Any, right: Any) -> Iterator[tuple[int, int]]:
    if type(left) is int and type(right) is int:
        yield left, right
    elif isinstance(left, (tuple, list)) and isinstance(right, (tuple, list)):
        lefts, rights = cast("list[Any]", [*left]), cast("list[Any]", [*right])
        for one, other in zip(lefts, rights) if len(lefts) == len(rights) else ():
            if type(one) is int and type(other) is int and one != other:
                yield one, other


def value_of(node: ast.expr, frame: FrameType) -> Any:
    """Evaluate a side of a comparison once more, where it was evaluated before; None where that fails."""
    try:
        with quiet():
            return eval(compile(ast.Expression(node), "<side>", "eval"), frame.f_globals, frame.f_locals)
    except Exception:  # noqa: BLE001 - it is the user's code
        return None


@lru_cache(maxsize=256)
def test_of(path: str, line: int) -> ast.expr | None:
    """Return the condition of the assertion at a line, or around the ``raise`` there."""
    statement = _statement(path, line, (ast.Assert,))
    if isinstance(statement, ast.Assert):
        return statement.test
    raising = _statement(path, line, (ast.Raise,))
    if raising is None:
        return None
    around = [n for n in _nodes(path) if isinstance(n, ast.If) and n.lineno <= line <= (n.end_lineno or 0)]
    return max(around, key=lambda n: n.lineno).test if around else None


@lru_cache(maxsize=256)
def _statement(path: str, line: int, kinds: tuple[type[ast.stmt], ...]) -> ast.stmt | None:
    for node in _nodes(path):
        if isinstance(node, kinds) and node.lineno <= line <= (node.end_lineno or node.lineno):
            return node
    return None


@lru_cache(maxsize=64)
def _nodes(path: str) -> tuple[ast.stmt, ...]:
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError, RecursionError):
        return ()
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.stmt))
