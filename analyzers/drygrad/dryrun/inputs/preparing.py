"""What must have happened to an object before a method of it can be called: ``fit`` before ``predict``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from drygrad.dryrun.inputs.arguments import FunctionNode
from drygrad.dryrun.inputs.tracing import Tracer
from drygrad.dryrun.inputs.usage import Usage

_FILLING = frozenset("append appendleft extend add insert".split())
_EMPTY_CALLS = frozenset("list dict deque set OrderedDict defaultdict".split())
_MOST = 2


@dataclass(frozen=True)
class Preparation:
    """A method to call first. ``fills``: it adds one of many; ``is_needed``: without it an attribute is missing.

    ``owner`` is the class of the object that it is called on, ``part`` the attribute that this object is, if it is one.
    """

    method: FunctionNode
    fills: bool
    is_needed: bool
    owner: ast.ClassDef
    part: str = ""

    @property
    def name(self) -> str:
        """How it is called on the object that is prepared."""
        return f"{self.part}.{self.method.name}" if self.part else self.method.name


def preparations(tracer: Tracer, made: Usage, called: Sequence[FunctionNode]) -> list[Preparation]:
    """Return the methods that give an object, and those it holds, what others read and constructors leave empty."""
    called = [method for method in called if method.name != "__init__"]
    if made.owner is None or not called:
        return []
    found = _own_preparations(tracer, made.owner, called)
    entered = reached(called, tracer.methods(made.owner))
    passed = [*(made.given or {}).values()]  # what the constructor is given is prepared by itself
    for name, inside in _calls_of_parts(entered):
        if name in made.attributes and any(made.attributes[name] is part for part in passed):
            continue
        held = made.attributes[name].owner if name in made.attributes else None
        inner = tracer.member(held, inside) if held is not None else None
        if held is not None and inner is not None and not any(step.part == name for step in found):
            steps = [step for step in _own_preparations(tracer, held, [inner]) if step.fills]
            found += [replace(step, part=name) for step in steps if not _fills_itself(entered, name, step.method.name)]
    return found[:_MOST]


def _calls_of_parts(methods: list[FunctionNode]) -> Iterator[tuple[str, str]]:
    """Yield the methods that are called on what an object holds, with the attributes that these are."""
    for method in methods:
        for node in ast.walk(method):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Attribute(attr=name) as held, attr=called)):
                    if _is_self(held.value):
                        yield name, called
                case _:
                    pass


def _fills_itself(methods: list[FunctionNode], name: str, filling: str) -> bool:
    return (name, filling) in {*_calls_of_parts(methods)}


def _own_preparations(tracer: Tracer, owner: ast.ClassDef, called: Sequence[FunctionNode]) -> list[Preparation]:
    methods = tracer.methods(owner)
    constructor = methods.get("__init__")
    own = reached(called, methods)
    begun = reached([constructor], methods) if constructor is not None else []
    found: dict[str, Preparation] = {}
    for name in read_by(own):
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
            adds = fills or any(_fills(other, stored) for stored in read_by(own))
            found.setdefault(other.name, Preparation(other, adds, needed, owner))
            break
    return [*found.values()][:_MOST]


def reached(begun: Sequence[FunctionNode], methods: dict[str, FunctionNode]) -> list[FunctionNode]:
    """Return methods and those of their own object that they call."""
    found, waiting = [*begun], [*begun]
    while waiting:
        for node in ast.walk(waiting.pop()):
            if _is_length(node) and "__len__" in methods and methods["__len__"] not in found:
                found.append(methods["__len__"])
                waiting.append(methods["__len__"])
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_self(node.func.value):
                called = methods.get(node.func.attr)
                if called is not None and called not in found:
                    found.append(called)
                    waiting.append(called)
    return found


def _is_length(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="len"), args=[given]):
            return _is_self(given)
        case _:
            return False


def read_by(methods: Sequence[FunctionNode]) -> Iterator[str]:
    """Yield the attributes that methods read of their object and do not set themselves."""
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
                found = _emptiness(_value_of(node, targets, name))
            elif isinstance(node, ast.Call) and any(isinstance(a, ast.Constant) and a.value == name for a in node.args):
                found = "set"  # register_buffer("name", ...), setattr(self, "name", ...)
    return found


def _targets(node: ast.AST) -> list[ast.expr]:
    """Return what an assignment assigns to, one by one."""
    whole = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [e for target in whole for e in (target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target])]


def _value_of(node: ast.Assign | ast.AnnAssign, targets: list[ast.expr], name: str) -> ast.expr | None:
    """Return what an assignment gives to an attribute, also where it gives several values to as many targets."""
    if isinstance(node.value, ast.Tuple) and len(node.value.elts) == len(targets):
        return next(v for t, v in zip(targets, node.value.elts, strict=True) if _is_attribute(t, name))
    return node.value


def _emptiness(value: ast.expr | None) -> str:
    if isinstance(value, ast.Constant) and not value.value:
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
        if isinstance(node, ast.AugAssign) and _is_attribute(node.target, name):
            return True
    return False


def _is_attribute(node: ast.AST | None, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name and _is_self(node.value)


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")
