"""Statements: how they change where names are."""

from __future__ import annotations

import ast
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, reduce

from drygrad.static.facts.places.entries import STATE, key_of, of_state, written_out
from drygrad.static.facts.places.evaluation import Scope
from drygrad.static.facts.places.keeping import Registration, of_parameter, registration
from drygrad.static.facts.places.lattice import NOWHERE, UNKNOWN, Parts, Place, element_of, join, without_none
from drygrad.static.tree import remembered, walk

_MINDS = re.compile(r"cuda|gpu|device|\bcpu\b|mps|xla|backend", re.IGNORECASE)
_PASSES = 3
"""A loop's body is passed so often; its places only join, and few need a third pass."""

Names = dict[str, Place]


def tests_device(test: ast.expr) -> bool:
    """Say whether a condition asks for a device: what is done under it is done knowingly."""
    return any(True for _ in _minded(test))


@remembered
def _minded(test: ast.AST) -> Iterator[str]:
    for node in walk(test):
        text = getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "value", None)
        if isinstance(text, str) and _MINDS.search(text):
            yield text


def execute(scope: Scope, body: Sequence[ast.stmt]) -> bool:
    """Execute statements; False where none of their ends is reached."""
    return all(_statement(scope, statement) for statement in body)


def _statement(scope: Scope, node: ast.stmt) -> bool:
    match node:
        case ast.Assign(targets=targets, value=value):
            place = scope.at(value)
            for target in targets:
                _assign(scope, target, place, node)
                if isinstance(target, ast.Subscript):
                    scope.written(target, value, place)
        case ast.AnnAssign(target=target, value=value) if value is not None:
            _assign(scope, target, scope.at(value), node)
        case ast.AugAssign():
            _augmented(scope, node)
        case ast.Expr(value=value):
            _expression(scope, node, value)
        case ast.Return() | ast.Raise() | ast.Continue() | ast.Break():
            _leave(scope, node)
            return False
        case ast.If():
            return _if(scope, node)
        case ast.For() | ast.AsyncFor() | ast.While():
            return _loop(scope, node)
        case ast.With(items=items) | ast.AsyncWith(items=items):
            for item in items:
                place = scope.at(item.context_expr)
                if item.optional_vars is not None:
                    scope.bind(item.optional_vars, UNKNOWN if place == NOWHERE else place)
            return execute(scope, node.body)
        case ast.Try():
            return _try(scope, node)
        case ast.Assert(test=test):
            scope.at(test)
        case _:
            _other(scope, node)
    return True


def _leave(scope: Scope, node: ast.stmt) -> None:
    match node:
        case ast.Return(value=value):
            place = NOWHERE if value is None else scope.at(value)
            scope.results.append(place)
            if value is not None:
                scope.returned[value] = place
        case ast.Continue() | ast.Break():
            scope.leaves.append(scope.names)
        case _:
            pass


def _other(scope: Scope, node: ast.stmt) -> None:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AsyncFunctionDef(name=name):
            scope.names.pop(name, None)
        case ast.Delete(targets=targets):
            for target in targets:
                scope.bind(target, UNKNOWN)
        case ast.Match(subject=subject, cases=cases):
            scope.at(subject)
            _either(scope, [case.body for case in cases])
        case _:
            pass


def _assign(scope: Scope, target: ast.expr, place: Place, statement: ast.stmt) -> None:
    scope.bind(target, place)
    match target:
        case ast.Name(id=name) if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            for entry, held in written_out(name, statement.value):
                scope.names[entry] = scope.at(held)
        case ast.Subscript(value=ast.Name(id=name)) if of_state(scope.names.get(name, UNKNOWN)):
            key = key_of(target.slice)
            scope.stores.setdefault(f"{STATE}[{key}]", []).append((statement, place))
        case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner == scope.receiver:
            registered = of_parameter(scope, statement.value) if isinstance(statement, ast.Assign) else None
            scope.stores.setdefault(name, []).append((statement, registered or place))
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            for inner in targets:
                match inner:
                    case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner == scope.receiver:
                        held = scope.names.get(f"{owner}.{name}", UNKNOWN)
                        scope.stores.setdefault(name, []).append((statement, held))
                    case _:
                        pass
        case _:
            pass


def _augmented(scope: Scope, node: ast.AugAssign) -> None:
    match node.target:
        case ast.Name(id=name):
            before: Place = scope.at(ast.copy_location(ast.Name(name, ast.Load()), node.target))
        case _:
            before = scope.at(node.target)
    added = scope.at(node.value)
    if isinstance(before, Parts):
        _assign(scope, node.target, Parts(None, join(element_of(before), element_of(added))), node)
        return
    made = scope.operation(node.target, [(node.target, before), (node.value, added)])
    if isinstance(node.target, (ast.Name, ast.Attribute)):
        _assign(scope, node.target, made, node)


def _expression(scope: Scope, statement: ast.stmt, node: ast.expr) -> None:
    scope.at(node)
    found = registration(node) if isinstance(node, ast.Call) else None
    match found:
        case Registration(owner=ast.Name(id=owner), name=name, value=ast.expr() as value) if owner == scope.receiver:
            if found.buffer:
                place = scope.places.objects.of_buffer(scope, name, scope.at(value))
                scope.names[f"{owner}.{name}"] = place
            else:
                place = of_parameter(scope, value) or UNKNOWN
            scope.stores.setdefault(name, []).append((statement, place))
        case _:
            pass


# -- ways --------------------------------------------------------------------------------------------------------


def _if(scope: Scope, node: ast.If, *, last: bool = False) -> bool:
    """Follow both ways; ``last``: of an elif, which leaves none but these, as good as always."""
    scope.at(node.test)
    before = dict(scope.names)
    with branch(scope, node.test, holds=True):
        through = execute(scope, node.body)
    first, scope.names = scope.names, dict(before)
    if through and _is_of_first_pass(node):  # what this binds has replaced, by then, what was bound before the loop
        scope.names |= {name: place for name, place in first.items() if before.get(name) != place}
    with branch(scope, node.test, holds=False):
        match node.orelse:
            case [ast.If() as other]:
                past = _if(scope, other, last=True)
            case _:
                past = execute(scope, node.orelse)
    if not through or not past:
        scope.names = scope.names if past else first
        return through or past
    changed = {name: place for name, place in first.items() if before.get(name) != place}
    second = {**scope.names, **changed} if last and not node.orelse else scope.names
    scope.names = joined(scope, first, second, knowingly=tests_device(node.test))
    return True


def _is_of_first_pass(node: ast.If) -> bool:
    """Say whether a condition holds once: ``if first: ...; first = False``."""
    match node.test:
        case ast.Name(id=flag):
            after = False
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=flag)):
            after = True
        case _:
            return False
    return any(
        isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Constant)
        and statement.value.value is after
        and any(isinstance(target, ast.Name) and target.id == flag for target in statement.targets)
        for statement in node.body
    )


@contextmanager
def branch(scope: Scope, test: ast.expr, *, holds: bool) -> Generator[None]:
    """Evaluate inside under a condition: of what is None there, and with an eye on devices where it asks for one."""
    minds = tests_device(test)
    name = _none_where(test, holds=holds)
    scope.minds_devices += minds
    if name is not None:
        scope.without = (*scope.without, name)
        if name in scope.names:
            scope.names[name] = NOWHERE
    other = _none_where(test, holds=not holds)
    if other is not None and other in scope.names:
        scope.names[other] = without_none(scope.names[other])
    try:
        yield
    finally:
        scope.minds_devices -= minds
        if name is not None:
            scope.without = scope.without[:-1]


def _none_where(test: ast.expr, *, holds: bool) -> str | None:
    """Return the name that is None where a test comes out so."""
    match test:
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Is()], comparators=[ast.Constant(value=None)]) if holds:
            return name
        case ast.Compare(left=ast.Name(id=name), ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
            return None if holds else name
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name)) if holds:
            return name
        case _:
            return None


def joined(scope: Scope, first: Names, second: Names, *, knowingly: bool = False) -> Names:
    """Return where names are that come one way or the other; unknown where a device ``knowingly`` chose the way."""
    names: Names = {}
    for name in {**first, **second}:
        one, other = (_place(scope, side, name) for side in (first, second))
        if one is None or other is None:
            names[name] = one or other or UNKNOWN
        elif knowingly and one != other:
            names[name] = UNKNOWN
        else:
            names[name] = join(one, other)
    return names


def _place(scope: Scope, names: Names, name: str) -> Place | None:
    known = names.get(name)
    owner, _, attribute = name.partition(".")
    if known is not None or not attribute:
        return known
    if owner != scope.receiver or scope.owner is None:
        return UNKNOWN
    return scope.places.objects.of_attribute(scope.owner, attribute, scope.function)


def _either(scope: Scope, bodies: Sequence[Sequence[ast.stmt]]) -> None:
    before, end = dict(scope.names), dict(scope.names)
    for body in bodies:
        scope.names = dict(before)
        if execute(scope, body):
            end = joined(scope, end, scope.names)
    scope.names = end


def _loop(scope: Scope, node: ast.For | ast.AsyncFor | ast.While) -> bool:
    iterated = UNKNOWN if isinstance(node, ast.While) else scope.iterated(scope.at(node.iter))
    outer, scope.leaves = scope.leaves, []
    ends: list[Names] = []
    for _ in range(_PASSES):
        head = dict(scope.names)
        if isinstance(node, ast.While):
            scope.at(node.test)
        else:
            scope.bind(node.target, iterated)
        reached = execute(scope, node.body)
        ends = [*scope.leaves, *([scope.names] if reached else [])]
        scope.names, scope.leaves = head, []
        for end in ends:
            scope.names = joined(scope, scope.names, end)
        if scope.names == head:
            break
    if ends and _is_endless(node):
        scope.names = reduce(partial(joined, scope), ends)
    scope.leaves = outer
    return execute(scope, node.orelse)


def _is_endless(node: ast.For | ast.AsyncFor | ast.While) -> bool:
    """Say whether nothing but a ``break`` ends a loop: its body has been passed, then."""
    return isinstance(node, ast.While) and isinstance(node.test, ast.Constant) and bool(node.test.value)


def _try(scope: Scope, node: ast.Try) -> bool:
    before = dict(scope.names)
    reached = execute(scope, [*node.body, *node.orelse])
    end = scope.names if reached else None
    raised = joined(scope, before, scope.names)
    for handler in node.handlers:
        scope.names = dict(raised)
        if execute(scope, handler.body):
            end = scope.names if end is None else joined(scope, end, scope.names)
    scope.names = raised if end is None else end
    return execute(scope, node.finalbody) and end is not None
