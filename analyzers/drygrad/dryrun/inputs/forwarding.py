"""Constructors that take anything and hand it on: what ``**kwargs`` must have for the class and for its bases."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from drygrad.dryrun.inputs.arguments import FunctionNode, missing_parameters, parameter_names


def constructor_of(owner: ast.ClassDef) -> FunctionNode | None:
    """Return the constructor that stands in a class itself."""
    return method_of(owner, "__init__")


def method_of(owner: ast.ClassDef, name: str) -> FunctionNode | None:
    """Return the method of a name that stands in a class itself."""
    own = (s for s in owner.body if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return next((method for method in own if method.name == name), None)


def handed_on(classes: Iterable[ast.ClassDef]) -> list[str]:
    """Return what a constructor must be given by name beside its parameters; the class comes before its bases."""
    return _handed_on([*classes])[1]


def _handed_on(classes: Sequence[ast.ClassDef]) -> tuple[FunctionNode | None, list[str]]:
    """Return the first constructor of some classes, and what its ``**kwargs`` must have."""
    for index, owner in enumerate(classes):
        constructor = constructor_of(owner)
        if constructor is None:
            continue
        if constructor.args.kwarg is None:
            return constructor, []
        names = [*_read(constructor, constructor.args.kwarg.arg)]
        call = _call_of_base(constructor)
        if call is not None:
            base, more = _handed_on(classes[index + 1 :])
            names += [*(_left(base, call) if base is not None else ()), *more]
        own = parameter_names(constructor, None)
        return constructor, [name for name in dict.fromkeys(names) if name not in own]
    return None, []


def _read(constructor: FunctionNode, kwargs: str) -> Iterator[str]:
    """Yield the entries of ``**kwargs`` that a constructor cannot do without."""
    for node in ast.walk(constructor):
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key)), ctx=ast.Load()):
                pass
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="pop"), args=[ast.Constant(value=str(key))]):
                pass
            case _:
                continue
        if name == kwargs:
            yield key


def _call_of_base(constructor: FunctionNode) -> ast.Call | None:
    """Return the call of the base's constructor that ``**kwargs`` are handed on to."""
    kwargs = constructor.args.kwarg.arg if constructor.args.kwarg is not None else ""
    for node in ast.walk(constructor):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_super(node.func.value):
            unpacked = [k.value for k in node.keywords if k.arg is None]
            handed = any(isinstance(value, ast.Name) and value.id == kwargs for value in unpacked)
            if node.func.attr == "__init__" and handed:
                return node
    return None


def is_super(node: ast.expr) -> bool:
    """Say whether an expression is a call of ``super``."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def _left(base: FunctionNode, call: ast.Call) -> list[str]:
    """Return the parameters of a base's constructor that a call leaves to what it hands on."""
    receiver = base.args.args[0].arg if base.args.args else None
    positional = [a for a in call.args if not isinstance(a, ast.Starred)]
    given = {*parameter_names(base, receiver)[: len(positional)], *(k.arg for k in call.keywords)}
    return [name for name in missing_parameters(base, receiver, ()) if name not in given]
