"""What dictionaries hold by name, ``state["step"]``, and what optimizers keep of the parameters that they are given."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from drygrad.static.facts.places.lattice import At, Parts, Place, each
from drygrad.static.facts.values import Class, Reference

if TYPE_CHECKING:
    from drygrad.static.facts.places.evaluation import Scope

GROUPS, STATE = "param_groups", "state"
OPTIMIZED = frozenset({GROUPS, STATE})
"""Roots of an optimizer: its parameters, and what it keeps of each."""


def key_of(index: ast.expr) -> str | None:
    """Return the key that an index names: what differs in each turn of a loop is one key, whatever it is."""
    match index:
        case ast.Constant(value=str(key)):
            return repr(key)
        case ast.JoinedStr(values=values):
            parts = (str(v.value) if isinstance(v, ast.Constant) else "{}" for v in values)
            return repr("".join(parts))
        case _:
            return None


def entry(target: ast.expr) -> str | None:
    """Return the name under which a scope keeps ``held["key"]``; None where it keeps none."""
    match target:
        case ast.Subscript(value=ast.Name(id=name), slice=index) if (key := key_of(index)) is not None:
            return f"{name}[{key}]"
        case _:
            return None


def is_one_of_many(target: ast.Subscript) -> bool:
    """Say whether a key stands for several: what is written to one leaves the others."""
    return isinstance(target.slice, ast.JoinedStr)


def written_out(name: str, value: ast.expr) -> list[tuple[str, ast.expr]]:
    """Return the entries of a dictionary that is written out, by the names that a scope keeps them under."""
    match value:
        case ast.Dict(keys=keys, values=values):
            named = zip(keys, values, strict=True)
            return [(f"{name}[{key_of(key)}]", held) for key, held in named if key is not None and key_of(key)]
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
            return [(f"{name}[{k.arg!r}]", k.value) for k in keywords if k.arg is not None]
        case _:
            return []


def is_optimizer(cls: Class | None) -> bool:
    """Say whether a class is one of optimizers: derived from torch's, or from what is called one."""
    bases = [base for each_class in cls.lineage() for base in each_class.bases] if cls is not None else []
    return any(base.name.rpartition(".")[2].endswith("Optimizer") for base in bases if isinstance(base, Reference))


def of_optimizer(name: str) -> Place:
    """Return where the groups of an optimizer are, or what it keeps of a parameter."""
    return Parts(None, frozenset({At(GROUPS)})) if name == GROUPS else frozenset({At(STATE)})


def of_group(scope: Scope, place: Place, index: ast.expr) -> Place | None:
    """Return where the parameters of an optimizer's group are: ``group["params"]``."""
    named = isinstance(index, ast.Constant) and index.value == "params"
    if not named or not is_optimizer(scope.owner):
        return None
    return Parts(None, each(place, lambda a: (At(a.root, tensor=True),) if isinstance(a, At) else (a,)))


def of_state(place: Place) -> bool:
    """Say whether something is what an optimizer keeps of a parameter."""
    return not isinstance(place, Parts) and all(isinstance(a, At) and a.root == STATE for a in place)
