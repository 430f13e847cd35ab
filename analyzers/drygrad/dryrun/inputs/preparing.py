"""What must have happened to an object before a method of it can be called: ``fit`` before ``predict``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from drygrad.dryrun.inputs.arguments import FunctionNode
from drygrad.dryrun.inputs.tracing import Tracer

_FILLING = frozenset("append appendleft extend add insert".split())
_EMPTY_CALLS = frozenset("list dict deque set OrderedDict defaultdict".split())
_MOST = 2


@dataclass(frozen=True)
class Preparation:
    """A method to call first. ``fills``: it adds one of many; ``is_needed``: without it an attribute is missing."""

    method: FunctionNode
    fills: bool
    is_needed: bool


def preparations(tracer: Tracer, owner: ast.ClassDef, method: FunctionNode) -> list[Preparation]:
    """Return the methods that give an object what a method reads and the constructor leaves empty."""
    methods = tracer.methods(owner)
    constructor = methods.get("__init__")
    if method.name == "__init__":
        return []
    own = _reached(method, methods)
    begun = _reached(constructor, methods) if constructor is not None else []
    found: dict[str, Preparation] = {}
    for name in _read_by(own):
        state = _state(name, begun)
        if state == "set" or name in methods or name in tracer.fields(owner):
            continue
        for other in methods.values():
            if other in own or other in begun or other.name.startswith("__"):
                continue
            fills, sets = _fills(other, name), _sets(other, name)
            if not fills and not sets:
                continue
            needed = state == "missing" or (state == "empty" and fills)
            found.setdefault(other.name, Preparation(other, fills, needed))
            break
    return [*found.values()][:_MOST]


def _reached(method: FunctionNode, methods: dict[str, FunctionNode]) -> list[FunctionNode]:
    """Return a method and those of its own object that it calls."""
    found, waiting = [method], [method]
    while waiting:
        for node in ast.walk(waiting.pop()):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_self(node.func.value):
                called = methods.get(node.func.attr)
                if called is not None and called not in found:
                    found.append(called)
                    waiting.append(called)
    return found


def _read_by(methods: list[FunctionNode]) -> Iterator[str]:
    for method in methods:
        set_here = {*_attributes(method, ast.Store)}
        yield from (name for name in _attributes(method, ast.Load) if name not in set_here)


def _attributes(method: FunctionNode, context: type[ast.expr_context]) -> Iterator[str]:
    for node in ast.walk(method):
        if isinstance(node, ast.Attribute) and _is_self(node.value) and isinstance(node.ctx, context):
            yield node.attr


def _state(name: str, begun: list[FunctionNode]) -> str:
    """Say whether the constructor leaves an attribute missing, empty or None, or sets it."""
    found = "missing"
    for method in begun:
        for node in ast.walk(method):
            targets = _targets(node)
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and any(_is_attribute(t, name) for t in targets):
                found = _emptiness(node.value)
            elif isinstance(node, ast.Call) and any(isinstance(a, ast.Constant) and a.value == name for a in node.args):
                found = "set"  # register_buffer("name", ...), setattr(self, "name", ...)
    return found


def _targets(node: ast.AST) -> list[ast.expr]:
    """Return what an assignment assigns to, one by one."""
    whole = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [e for target in whole for e in (target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target])]


def _emptiness(value: ast.expr | None) -> str:
    if isinstance(value, ast.Constant) and value.value is None:
        return "none"
    if isinstance(value, (ast.List, ast.Dict)) and not (value.elts if isinstance(value, ast.List) else value.keys):
        return "empty"
    called = ast.unparse(value.func).rpartition(".")[2] if isinstance(value, ast.Call) else ""
    return "empty" if called in _EMPTY_CALLS else "set"


def _fills(method: FunctionNode, name: str) -> bool:
    for node in ast.walk(method):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _FILLING:
            owner = node.func.value.value if isinstance(node.func.value, ast.Subscript) else node.func.value
            if _is_attribute(owner, name):
                return True
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and _is_attribute(node.value, name):
            return True
    return False


def _sets(method: FunctionNode, name: str) -> bool:
    for node in ast.walk(method):
        if isinstance(node, ast.Assign) and any(_is_attribute(t, name) for t in _targets(node)):
            return _emptiness(node.value) == "set"
    return False


def _is_attribute(node: ast.AST | None, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name and _is_self(node.value)


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")
