"""What objects keep: attributes that methods assign or register, and where other methods find them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from drygrad.static.facts.places.chosen import of_object
from drygrad.static.facts.places.evaluation import Scope
from drygrad.static.facts.places.lattice import (
    FREE,
    MODULE,
    NOWHERE,
    UNKNOWN,
    Alternative,
    Anywhere,
    At,
    Made,
    Nowhere,
    Parts,
    Place,
    each,
    flat,
    join_all,
    without_none,
)
from drygrad.static.facts.values import Reference
from drygrad.static.tree import remembered, walk

BEGINS = re.compile(r"__init__$|_?reset_parameters$|_?(re)?init(iali[sz]e)?(_?weights|_?parameters)?$|setup$|build$")
"""Methods that begin an object's life, as a rule before it is moved."""
_PARAMETERS = frozenset({"torch.nn.Parameter", "torch.nn.parameter.Parameter"})


def of_parameter(scope: Scope, value: ast.expr) -> Place | None:
    """Return where others find what a method registers as a parameter; None where it is none, or comes later."""
    if BEGINS.match(scope.function.name) is None:
        return None
    match value:
        case ast.Constant(value=None):
            return NOWHERE
        case ast.IfExp(body=body, orelse=orelse):
            ways = [of_parameter(scope, way) for way in (body, orelse)]
            known = [way for way in ways if way is not None]
            return without_none(join_all(known)) if len(known) == len(ways) else None
        case ast.Call(func=function):
            made = scope.value(function)
            is_parameter = isinstance(made, Reference) and made.name in _PARAMETERS
            return frozenset({At(MODULE, tensor=True)}) if is_parameter else None
        case _:
            return None


@remembered
def stored_names(method: ast.AST) -> Iterator[str]:
    """Yield the attributes of its object that a method assigns or registers."""
    for node in walk(method):
        match node:
            case ast.Attribute(value=ast.Name(), attr=name, ctx=ast.Store()):
                yield name
            case _:
                pass
    yield from registered_names(method)


@remembered
def registered_names(method: ast.AST) -> Iterator[str]:
    """Yield the parameters and buffers that a method registers by name."""
    for node in walk(method):
        if isinstance(node, ast.Call) and (registered := registration(node)) is not None:
            yield registered.name


class Registration(NamedTuple):
    """A call that gives a module a parameter or a buffer by name; the value is None where it cannot be read."""

    owner: ast.expr
    name: str
    value: ast.expr | None
    buffer: bool


def registration(call: ast.Call) -> Registration | None:
    """Return what ``self.register_buffer("mask", mask)`` registers, its arguments given either way."""
    match call.func:
        case ast.Attribute(value=owner, attr="register_buffer" | "register_parameter" as method):
            keywords = {keyword.arg: keyword.value for keyword in call.keywords}
            named = call.args[0] if call.args else keywords.get("name")
            values = (keywords.get(name) for name in ("tensor", "param", "parameter"))
            value = call.args[1] if len(call.args) > 1 else next((v for v in values if v is not None), None)
            if isinstance(named, ast.Constant) and isinstance(named.value, str):
                return Registration(owner, named.value, value, method == "register_buffer")
            return None
        case _:
            return None


def kept(statement: ast.stmt, place: Place, method: ast.FunctionDef | ast.AsyncFunctionDef) -> Place:
    """Return a place as others read it from an attribute: what a method was given is unknown to them."""
    begun = BEGINS.match(method.name) is not None

    def seen(a: Alternative) -> tuple[Alternative, ...]:
        match a:
            case Made(factory=factory) if _is_empty(factory):
                return (FREE,)
            case Made():
                return (replace(a, without=None, stored=statement, kept_by_init=begun),)
            case At(root=root):
                return (a,) if root == MODULE or of_object(root, "self") else (Anywhere(),)
            case _:
                return (a,)

    return each(place, seen)


def _is_empty(factory: ast.Call) -> bool:
    """Say whether a factory makes nothing yet: ``torch.empty(0, 0)``, which is asked for its size before it is used."""
    match factory.args:
        case [ast.List(elts=[])]:
            return True
        case [ast.Tuple(elts=sizes)]:
            return any(_is_zero(size) for size in sizes)
        case sizes:
            return bool(sizes) and all(map(_is_zero, sizes))


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0 and not isinstance(node.value, bool)


def of_stores(begun: list[Place], later: list[Place]) -> Place:
    """Return where an attribute is that these were assigned to, in the beginning and later on.

    It is claimed to be on the default device only where all that is assigned in one of both phases was made there.
    """
    registered = any(At(MODULE, tensor=True) in flat(place) for place in begun)
    if registered and any(isinstance(a, Made) for place in begun for a in flat(place)):
        return UNKNOWN  # a parameter on one way, a plain tensor on another
    known = [[place for place in group if place != NOWHERE] for group in (begun, later)]
    if not known[0] and not known[1]:
        return NOWHERE if begun or later else UNKNOWN
    for group in reversed(known):
        alternatives = [a for place in group for a in flat(place)]
        if any(isinstance(a, (Anywhere, Nowhere)) for a in alternatives):
            return UNKNOWN
    if len({isinstance(place, Parts) for group in known for place in group}) > 1:
        return UNKNOWN
    return join_all([*known[0], *known[1]])
