"""Classes that derive from ``torch.autograd.Function``: their forward and backward, and what these get."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from drygrad.static.context import Context, FunctionNode

_BASES = ("torch.autograd.Function", "torch.autograd.function.Function", "torch.autograd.function.InplaceFunction")


@dataclass(frozen=True)
class CustomFunction:
    """A ``torch.autograd.Function`` of the file."""

    node: ast.ClassDef

    def method(self, name: str) -> FunctionNode | None:
        """Return the method of a name that stands in the class itself."""
        return next((m for m in self.node.body if isinstance(m, ast.FunctionDef) and m.name == name), None)


def custom_function(node: ast.ClassDef, ctx: Context) -> CustomFunction | None:
    """Return what a class statement makes, where that surely is a ``torch.autograd.Function``."""
    cls = ctx.class_of(node)
    return CustomFunction(node) if cls is not None and cls.derives_from(*_BASES) else None


def context_name(function: FunctionNode) -> str | None:
    """Return how a method of such a class calls its ``ctx``."""
    given = [*function.args.posonlyargs, *function.args.args]
    return given[0].arg if given else None


def gradient_names(backward: FunctionNode) -> set[str]:
    """Return the names under which a ``backward`` gets the gradients of the outputs."""
    given = [*backward.args.posonlyargs, *backward.args.args][1:]
    several = [backward.args.vararg] if backward.args.vararg else []
    return {parameter.arg for parameter in (*given, *several)}
