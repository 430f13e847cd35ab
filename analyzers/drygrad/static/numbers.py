"""Numbers that the text tells: literals, constants of the file, defaults that no caller replaces, sums of these."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable

from drygrad.static.context import Context
from drygrad.static.facts.values import Constant
from drygrad.static.syntax import argument, assigned_in, parameter_names

_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {ast.Add: operator.add, ast.Sub: operator.sub}


def number_of(node: ast.expr, ctx: Context) -> float | None:
    """Return the number that an expression is; None where it may be another one."""
    value = ctx.value(node)
    if isinstance(value, Constant):
        return value.value if isinstance(value.value, (int, float)) and not isinstance(value.value, bool) else None
    match node:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            first, second = number_of(left, ctx), number_of(right, ctx)
            return None if first is None or second is None else _OPERATORS[type(op)](first, second)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            number = number_of(operand, ctx)
            return None if number is None else -number
        case ast.Name(id=name):
            return _default_of(name, node, ctx)
        case _:
            return None


def _default_of(name: str, node: ast.Name, ctx: Context) -> float | None:
    """Return the default of a parameter that nobody in the file passes, and that is never bound anew."""
    function = ctx.function(node)
    if function is None or name not in parameter_names(function) or any(n == name for n, _ in assigned_in(function)):
        return None
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    pairs = [
        *zip(positional[::-1], given.defaults[::-1], strict=False),
        *zip(given.kwonlyargs, given.kw_defaults, strict=True),
    ]
    default = next((d for parameter, d in pairs if parameter.arg == name), None)
    if not isinstance(default, ast.Constant) or not isinstance(default.value, (int, float)):
        return None
    position = parameter_names(function).index(name)
    passed = (argument(site.node, name, position) for site in ctx.callers(function) if isinstance(site.node, ast.Call))
    return None if any(p is not None for p in passed) else float(default.value)
