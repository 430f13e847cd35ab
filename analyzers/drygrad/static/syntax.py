"""What the text of a program tells by itself: the nodes of a body, what is called, bound and passed there."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import chain

from drygrad.static.context import Context, FunctionNode
from drygrad.static.facts.frame import dotted_text
from drygrad.static.tree import children, remembered, walk

_OTHER_BODIES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)

# -- nodes ------------------------------------------------------------------------------------------------------


def own_nodes(*roots: ast.AST) -> Iterator[ast.AST]:
    """Yield nodes and what they hold, in the order of the text; bodies of functions and classes are left out."""
    return chain.from_iterable(map(_own_nodes, roots))


def nodes_within(root: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes under a node in the order of the text; functions and classes inside are left out whole."""
    return _nodes_within(root)


def body_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of the body of a function, loop or module, in the order of the text."""
    return own_nodes(*getattr(scope, "body", ()))


def _outside_other_bodies(roots: Iterable[ast.AST]) -> Iterator[ast.AST]:
    waiting = [*roots][::-1]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _OTHER_BODIES):
            waiting.extend(reversed(children(node)))


@remembered
def _own_nodes(root: ast.AST) -> Iterator[ast.AST]:
    return _outside_other_bodies((root,))


@remembered
def _nodes_within(root: ast.AST) -> Iterator[ast.AST]:
    return (node for node in _outside_other_bodies(children(root)) if not isinstance(node, _OTHER_BODIES))


def scope_of(node: ast.AST, ctx: Context) -> ast.AST:
    """Return the function around a node, or the module."""
    return ctx.function(node) or ctx.tree


def class_around(node: ast.AST, ctx: Context) -> ast.ClassDef | None:
    """Return the innermost class around a node, whatever functions lie between."""
    return next((ancestor for ancestor in ctx.ancestors(node) if isinstance(ancestor, ast.ClassDef)), None)


def _place(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def follows(node: ast.AST, other: ast.AST) -> bool:
    """Say whether a node stands after another in the text."""
    return _place(node) > _place(other)


def has_multiline_string(node: ast.AST) -> bool:
    """Say whether a string in a statement spans lines: to indent the statement anew would change the string."""
    strings = (n for n in walk(node) if isinstance(n, (ast.Constant, ast.JoinedStr)))
    return any(string.lineno != string.end_lineno for string in strings)


def own_attributes(root: ast.AST) -> Iterator[str]:
    """Yield the attributes of ``self`` at and below a node, each as often as it stands there."""
    for node in walk(root):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            yield node.attr


# -- calls and functions ----------------------------------------------------------------------------------------


@remembered
def calls_in(scope: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls in the body of a function, loop or module."""
    return (node for node in body_nodes(scope) if isinstance(node, ast.Call))


def called(node: ast.Call) -> str:
    """Return the last part of the name that a call calls: ``step`` for ``self.optimizer.step()``."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def argument(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """Return what a call passes by a keyword or, where that is not given, at a position."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    return call.args[position] if position is not None and position < len(call.args) else None


def parameter_names(function: FunctionNode) -> list[str]:
    """Return the names of a function's parameters, those of ``*args`` and ``**kwargs`` left out."""
    given = function.args
    return [parameter.arg for parameter in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


# -- names ------------------------------------------------------------------------------------------------------


def bound_names(target: ast.AST) -> set[str]:
    """Return the plain names that are bound at or below a node."""
    return {n.id for n in walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


@remembered
def assigned_in(scope: ast.AST) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the dotted names that statements in a body bind, with the statement."""
    for node in body_nodes(scope):
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.With, ast.Delete)):
            for text in chain.from_iterable(map(_bound_texts, _targets(node))):
                yield text, node


def _bound_texts(target: ast.expr) -> Iterator[str]:
    for part in walk(target):
        text = dotted_text(part) if isinstance(part, (ast.Name, ast.Attribute)) else None
        if text is not None and not isinstance(getattr(part, "ctx", None), ast.Load):
            yield text


def _targets(node: ast.Assign | ast.AugAssign | ast.AnnAssign | ast.For | ast.With | ast.Delete) -> list[ast.expr]:
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            return targets
        case ast.With(items=items):
            return [item.optional_vars for item in items if item.optional_vars is not None]
        case _:
            return [node.target]


def rebound_between(text: str, first: ast.AST, second: ast.AST, scope: ast.AST) -> bool:
    """Say whether a name is bound anew between two nodes, in the order of the text."""
    low, high = sorted((_place(first), _place(second)))
    return any(name == text and low < _place(statement) < high for name, statement in assigned_in(scope))


def block_of(ctx: Context, statement: ast.stmt) -> list[ast.stmt]:
    """Return the list of statements that a statement stands in."""
    parent = ctx.parent(statement)
    blocks: list[list[ast.stmt] | None] = [getattr(parent, name, None) for name in ("body", "orelse", "finalbody")]
    return next((block for block in blocks if isinstance(block, list) and statement in block), [statement])


def last_assignment(ctx: Context, name: str, statement: ast.stmt, *, whole: bool = False) -> ast.expr | None:
    """Return the value that a name was last assigned before a statement, where only one can have been.

    Only plain assignments that surely ran before are taken: earlier in the same block or in one around it, or in a
    ``with`` block there. With ``whole``, a tuple that is unpacked counts as what its names are assigned.
    """
    place: ast.AST = statement
    while (parent := ctx.parent(place)) is not None:
        if isinstance(place, ast.stmt):
            block = block_of(ctx, place)
            for before in reversed(block[: block.index(place)]):
                if name in bound_names(before):
                    return _assigned(before, name, whole)
        if isinstance(parent, (ast.Module, *_OTHER_BODIES)):
            return None
        if name in bound_names(parent) and isinstance(parent, (ast.For, ast.While, ast.AsyncFor, ast.Try)):
            return None
        place = parent
    return None


def _assigned(statement: ast.stmt, name: str, whole: bool) -> ast.expr | None:
    match statement:
        case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
            return value
        case ast.Assign(targets=[ast.Tuple()], value=value) if whole:
            return value
        case ast.With(body=body):
            last = next((inner for inner in reversed(body) if name in bound_names(inner)), None)
            return _assigned(last, name, whole) if last is not None else None
        case _:
            return None
