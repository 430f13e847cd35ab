"""Functions of functions: what ``vmap``, ``jacrev`` and their like make of a function, and where the results are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drygrad.static.facts.values import Function, Reference
from drygrad.static.tree import remembered, walk

if TYPE_CHECKING:
    from drygrad.static.facts.places.evaluation import Scope

_HOMES = ("torch.", "torch.func.", "torch._functorch.apis.", "functorch.")
_SAME = frozenset({"vmap", "compile"})
"""These call the function with the arguments, or with parts of them, and give its results."""
_DERIVATIVES = frozenset({"grad", "jacrev", "jacfwd", "hessian"})
"""These give derivatives with respect to the arguments."""
_DEEPEST = 4


@dataclass(frozen=True, slots=True)
class Transformed:
    """What transforms were made of: the function, where it is known; ``derivative`` says that one of them derives."""

    function: Function | None
    derivative: bool


def transformed(scope: Scope, node: ast.expr, deepest: int = _DEEPEST) -> Transformed | None:
    """Return what a called expression transforms, as ``vmap(f)`` or under a name; None where it is no transform."""
    match node:
        case ast.Call(args=[inner, *_]) if (kind := _kind(scope, node)) is not None and deepest:
            below = transformed(scope, inner, deepest - 1)
            value = scope.value(inner)
            function = below.function if below is not None else value if isinstance(value, Function) else None
            return Transformed(function, kind in _DERIVATIVES or (below is not None and below.derivative))
        case ast.Name(id=name) if deepest:
            assigned = [value for target, value in _assignments(scope.function) if target == name]
            made = [transformed(scope, value, deepest - 1) for value in assigned]
            first = made[0] if made else None
            known = [each for each in made if each is not None]
            if first is None or len(known) < len(made):
                return None
            return Transformed(first.function, any(each.derivative for each in known))
        case _:
            return None


def _kind(scope: Scope, node: ast.Call) -> str | None:
    value = scope.value(node.func)
    name = value.name if isinstance(value, Reference) else ""
    home, _, last = name.rpartition(".")
    return last if f"{home}." in _HOMES and last in _SAME | _DERIVATIVES else None


@remembered
def _assignments(function: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    for node in walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case _:
                pass
