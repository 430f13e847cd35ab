"""Which functions call a target: what users call passes on to a helper what it needs, in the state that it needs."""

from __future__ import annotations

import ast
from dataclasses import replace

from drygrad.dryrun.inputs.arguments import FunctionNode
from drygrad.dryrun.inputs.neighbours import Neighbours
from drygrad.dryrun.inputs.tracing import Tracer
from drygrad.dryrun.targets import Target, targets
from drygrad.static.source import Source

MOST = 3
_DEPTH = 3


def callers_of(source: Source, target: Target, neighbours: Neighbours) -> list[Target]:
    """Return the functions and methods that call a target, directly or not: those first that users call."""
    known = _reachable(source, target, neighbours)
    found: dict[str, Target] = {}
    wanted = {str(target.qualname)}
    for _ in range(_DEPTH):
        calling = [c for c in known if str(c.qualname) not in found and any(_calls(c, w, target) for w in wanted)]
        wanted = {str(caller.qualname) for caller in calling}
        found |= {str(caller.qualname): caller for caller in calling if caller.qualname != target.qualname}
    return sorted(found.values(), key=lambda caller: _is_own(str(caller.qualname)))[:MOST]


def _reachable(source: Source, target: Target, neighbours: Neighbours) -> list[Target]:
    """Return the targets of the file, and the methods that the target's class inherits from other files."""
    known = [one for one in targets(source) if one.function is not None]
    if target.owner is None:
        return known
    owner, name = target.owner, str(target.qualname).rpartition(".")[0]
    names = {str(one.qualname) for one in known}
    inherited = Tracer(source.tree, neighbours).methods(owner)
    for method, node in inherited.items():
        qualname = f"{name}.{method}"
        if qualname not in names and method != "__init__" and not method.startswith("__"):
            known.append(_method(target, qualname, node))
    return known


def _method(target: Target, qualname: str, node: FunctionNode) -> Target:
    """Return a method of the target's class as a target."""
    decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
    receives = "staticmethod" not in decorators and node.args.args
    receiver = node.args.args[0].arg if receives else None
    return replace(target, qualname=qualname, node=node, receiver=receiver, is_class_method="classmethod" in decorators)


def _calls(caller: Target, qualname: str, target: Target) -> bool:
    """Say whether a function may come to another one: it names it or its class, or calls it on its own object."""
    owner, _, name = qualname.rpartition(".")
    around = str(caller.qualname).rpartition(".")[0]
    if owner and (around == owner or caller.owner is target.owner):
        return name in _of_receiver(caller)
    return (owner.partition(".")[0] or name) in _named(caller)


def _of_receiver(caller: Target) -> set[str]:
    """Return what a method reads of its own object."""
    nodes = (n for n in ast.walk(caller.node) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name))
    return {n.attr for n in nodes if isinstance(n.value, ast.Name) and n.value.id == caller.receiver}


def _named(caller: Target) -> set[str]:
    """Return the names that a function reads; of what an object does when it is called, all that its class reads."""
    whole = caller.owner is not None and getattr(caller.function, "name", "") in ("forward", "__call__")
    node = caller.owner if whole and caller.owner is not None else caller.node
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _is_own(qualname: str) -> bool:
    """Say whether a function is no part of what users call."""
    return any(part.startswith("_") for part in qualname.split("."))
