"""Models that the text calls without showing their class: ``self.model(x, mask)``, ``net(x)``, ``encoder.forward(x)``.

A model has its parameters on one device, which takes its inputs there; what it returns is there, too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from drygrad.static.facts.places import given
from drygrad.static.facts.places.lattice import MODULE, UNKNOWN, Alternative, At, Made, Parts, Place, flat, join_all

if TYPE_CHECKING:
    from drygrad.static.facts.places.evaluation import Scope

_MODEL = re.compile(
    r"(^|_)(model|net|network|encoder|decoder|backbone|classifier|unet|vae|discriminator|actor|critic|policy|qnet)$"
)
_STAYS = re.compile(r"len|size|count|num|step|index|indices|^(i|t|ids?)$|time|seed|label|scale|shape", re.IGNORECASE)
"""Names of what a model may well take from the CPU, or moves itself."""

Operands = list[tuple[ast.expr, Place]]


def is_model(function: ast.expr) -> bool:
    """Say whether what is called is a model, by its name or by its ``forward``."""
    match function:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super"))):
            return False
        case ast.Attribute(value=ast.Name(id="self" | "cls"), attr="forward"):
            return False
        case ast.Attribute(attr="forward"):
            return True
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return _MODEL.search(name) is not None
        case _:
            return False


def of_model(scope: Scope, node: ast.Call, places: Operands) -> Place:
    """Return where a model leaves what it makes of its inputs, noting which of these are apart."""
    operands = [*_operands(node, dict(places))]
    inputs = [place for _, place in operands if any(isinstance(a, At) for a in flat(place))]
    if not inputs:
        return UNKNOWN
    scope.operation(node, operands)
    surely = [place for place in inputs if any(isinstance(a, At) and _is_tensor(scope, a) for a in flat(place))]
    first = next(iter(surely or inputs))
    return first if all(isinstance(a, At) for a in first) else UNKNOWN


def _is_tensor(scope: Scope, a: At) -> bool:
    return a.tensor or a.root in scope.shown or a.root == MODULE


def _operands(node: ast.Call, places: dict[ast.expr, Place]) -> Iterator[tuple[ast.expr, frozenset[Alternative]]]:
    arguments: Sequence[tuple[str, ast.expr]] = [
        *(("", argument) for argument in node.args),
        *((keyword.arg or "", keyword.value) for keyword in node.keywords),
    ]
    for name, argument in arguments:
        for part, place in _parts(argument, places.get(argument, UNKNOWN)):
            if isinstance(place, Parts):
                continue
            made = any(isinstance(a, Made) for a in place)
            if not made or not (_STAYS.search(name) or _STAYS.search(_name(part)) or given.may_stay(name)):
                yield part, place


def _parts(node: ast.expr, place: Place) -> Operands:
    """Return what a model is given in a tuple or a list one by one."""
    if not isinstance(place, Parts):
        return [(node, place)]
    if isinstance(node, (ast.Tuple, ast.List)) and place.items is not None and len(place.items) == len(node.elts):
        pairs = zip(node.elts, place.items, strict=True)
        return [part for element, inner in pairs for part in _parts(element, inner)]
    items = place.items if place.items is not None else (place.element,)
    joined = join_all(items)
    return [(node, joined)] if not isinstance(joined, Parts) else []


def _name(node: ast.expr) -> str:
    while isinstance(node, (ast.Subscript, ast.Call, ast.Attribute)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            return node.attr
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
