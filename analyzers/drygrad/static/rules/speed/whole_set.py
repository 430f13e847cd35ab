"""What goes through all samples that a dataset holds."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.static.context import Context, FunctionNode
from drygrad.static.facts.values import Function, Number, Object
from drygrad.static.syntax import parameter_names
from drygrad.static.tree import walk

_GOES_THROUGH = frozenset(
    "mean std var sum min max amin amax median quantile norm sort argsort unique cumsum logsumexp prod nanmean nanstd "
    "std_mean var_mean aminmax percentile nanmin nanmax value_counts describe bincount normalize".split()
)
_LIBRARIES = ("torch.", "numpy.")
_CONVERTS = frozenset(
    "float double long int numpy to_numpy astype to cpu clone copy detach stack cat concatenate vstack hstack array "
    "asarray tensor as_tensor from_numpy".split()
)
"""Methods and functions whose result holds all that they were given."""
_BUILTIN = frozenset({"sorted", "sum", "min", "max", "set"})


def gone_through(function: FunctionNode, held: frozenset[str], ctx: Context) -> Iterator[tuple[ast.Call, str]]:
    """Yield the calls that go through all that a dataset holds, with the words for it."""
    whole = _Whole(held, ctx)
    for node in walk(function):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            whole.names[node.targets[0].id] = whole.text(node.value)
    for node in walk(function):
        text = whole.reduced(node) or whole.handed_on(node) if isinstance(node, ast.Call) else None
        if text is not None and isinstance(node, ast.Call):
            yield node, text


class _Whole:
    """What stands for all samples of a dataset in a function's expressions."""

    def __init__(self, held: frozenset[str], ctx: Context) -> None:
        self.names: dict[str, str | None] = {}
        self._held = held
        self._ctx = ctx

    def text(self, node: ast.expr) -> str | None:
        """Return the words for an expression that has an entry for each sample; None for others."""
        match node:
            case ast.Name(id=name):
                return self.names.get(name)
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                value = self._ctx.value(node)
                is_one = isinstance(value, (Object, Number)) or name not in self._held
                return None if is_one else self._ctx.source_of(node)
            case ast.Attribute(value=inner, attr="values" | "loc" | "iloc"):
                return self.text(inner)
            case ast.Subscript(value=inner, slice=ast.Tuple(elts=[ast.Slice(lower=None, upper=None, step=None), *_])):
                return self.text(inner)
            case ast.Subscript(value=inner, slice=ast.Constant(value=str())):
                return self.text(inner)
            case ast.Call(func=ast.Attribute(value=inner, attr=name), args=arguments) if name in _CONVERTS:
                return self.text(inner) or next(filter(None, map(self.text, arguments[:1])), None)
            case ast.ListComp(generators=[generator]) | ast.GeneratorExp(generators=[generator]):
                return None if generator.ifs else self.text(generator.iter)
            case ast.Call(func=ast.Name(id="list" | "set" | "sorted" | "tuple"), args=[inner]):
                return self.text(inner)
            case _:
                return None

    def reduced(self, node: ast.Call) -> str | None:
        """Return what a call reduces as a whole."""
        match node:
            case ast.Call(func=ast.Name(id=name), args=[argument]):
                return self.text(argument) if name in _BUILTIN else None
            case ast.Call(func=ast.Attribute(value=receiver, attr=name)) if name in _GOES_THROUGH:
                called = self._ctx.name(node.func) or ""
                return self.text(node.args[0] if called.startswith(_LIBRARIES) and node.args else receiver)
            case _:
                return None

    def handed_on(self, node: ast.Call) -> str | None:
        """Return what a call hands to a function of the file that goes through it."""
        value = self._ctx.value(node.func)
        function = value.node if isinstance(value, Function) and value.receiver is None else None
        if not isinstance(function, ast.FunctionDef):
            return None
        for name, argument in zip(parameter_names(function), node.args, strict=False):
            text = self.text(argument)
            inside = _Whole(frozenset(), self._ctx)
            inside.names[name] = text
            calls = (part for part in walk(function) if isinstance(part, ast.Call)) if text is not None else ()
            if any(inside.reduced(call) is not None for call in calls):
                return text
        return None
