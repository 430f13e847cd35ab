"""The methods of ``nn.Module`` classes: whose they are, when ``Module.__init__`` runs, what torch is called there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.static.context import Context
from drygrad.static.tree import walk


def methods_of(node: ast.ClassDef) -> list[ast.FunctionDef]:
    """Return the methods that stand in the body of a class."""
    return [member for member in node.body if isinstance(member, ast.FunctionDef)]


def method(node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    """Return the method of a name, None where the body has none."""
    return next((member for member in methods_of(node) if member.name == name), None)


def module_around(node: ast.AST, ctx: Context) -> tuple[ast.ClassDef, ast.FunctionDef] | None:
    """Return the ``nn.Module`` class and its method that a node stands in; None elsewhere and in ``__init__``."""
    function = ctx.function(node)
    cls = ctx.parent(function) if function is not None else None
    if not isinstance(function, ast.FunctionDef) or not isinstance(cls, ast.ClassDef):
        return None
    if function.name == "__init__" or not self_name(function) or not ctx.is_module_class(cls):
        return None
    return cls, function


def self_name(function: ast.FunctionDef) -> str:
    """Return the name of a method's first parameter; empty for a static method or class method."""
    positional = [*function.args.posonlyargs, *function.args.args]
    unbound = {ast.unparse(decorator) for decorator in function.decorator_list} & {"staticmethod", "classmethod"}
    return positional[0].arg if positional and not unbound else ""


def attribute_of(node: ast.AST, owner: str) -> str | None:
    """Return ``x`` for ``self.x``, where ``owner`` is what the method calls ``self``."""
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name == owner:
            return attribute
        case _:
            return None


def attributes_assigned(function: ast.FunctionDef) -> Iterator[tuple[ast.Attribute, ast.Assign | ast.AnnAssign]]:
    """Yield each ``self.x`` that a statement of a method assigns alone, with the statement."""
    owner = self_name(function)
    for node in walk(function):
        match node:
            case ast.Assign(targets=[ast.Attribute() as target]) | ast.AnnAssign(target=ast.Attribute() as target):
                if node.value is not None and attribute_of(target, owner):
                    yield target, node
            case _:
                pass


def is_initialised_before(node: ast.expr, init: ast.FunctionDef) -> bool:
    """Say whether an ``__init__`` of a base is called above a node, so that modules and parameters can be assigned."""
    return any(isinstance(n, ast.Attribute) and n.attr == "__init__" and n.lineno < node.lineno for n in walk(init))
