"""Generators of random numbers on another device than the values: the line that has made them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from types import CodeType

from drygrad.worker.explain.scene import Scene
from drygrad.worker.lines import Lines
from drygrad.worker.naming import Call, binding_in
from drygrad.worker.run import Fault, Place
from drygrad.worker.texts import function_at, tree_of

ELSEWHERE = re.compile(r"Expected a '(\w+)' device type for generator but found '(\w+)'")
"""What torch says where a generator cannot draw on a device."""

_MAKER = "Generator"


def generator_fault(scene: Scene, code: str, wanted: str, given: str) -> Fault:
    """Explain a generator that cannot draw on a device, where it was made if that is known."""
    written = scene.call.expression()
    keywords = written.keywords if isinstance(written, ast.Call) else []
    argument = next((k.value for k in keywords if k.arg == "generator"), None)
    name = f"`{ast.unparse(argument)}`" if argument is not None else "the generator"
    where = "the CPU" if given == "cpu" else given
    message = (
        f"{name} is a generator on {where}, but the values are drawn on {wanted!r}; use `torch.Generator({wanted!r})`"
    )
    fault = scene.fault(code, message, generator=wanted)
    return scene.moved(fault, _made_at(scene.calls, argument, scene.run.lines) if argument is not None else None)


def _made_at(calls: Sequence[Call], argument: ast.expr, lines: Lines) -> Place | None:
    """Return the line that has made what an argument stands for, in the function that was not itself handed it."""
    generator = calls[0].value_of(argument)
    if generator is None:
        return None
    for call in calls:
        name = next((name for name, value in call.names() if value is generator), None)
        if name is None:
            return None
        if "." in name:
            return _made_in_constructor(type(call.receiver()), name, lines)
        if all(value is not generator for value in call.arguments().values()):
            return _made_by(call, call.code, name, lines)
    return None


def _made_in_constructor(kind: type, name: str, lines: Lines) -> Place | None:
    codes = (getattr(vars(base).get("__init__"), "__code__", None) for base in kind.__mro__)
    users = (code for code in codes if code is not None and lines.is_user(code))
    return next(filter(None, (_made_by(None, code, name, lines) for code in users)), None)


def _made_by(call: Call | None, code: CodeType, name: str, lines: Lines) -> Place | None:
    """Return where a function makes the generator that it binds to a name, or where the function does that it calls."""
    place, source = binding_in(code, name, lines), lines.source(code.co_filename)
    if place is None or source is None:
        return None
    statement = _statement_at("\n".join(source), place.line)
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)] if statement is not None else []
    if any(_makes(node) for node in calls):
        return place
    if call is None:
        return None
    for node in calls:
        inner = getattr(call.value_of(node.func), "__code__", None)
        if isinstance(inner, CodeType) and lines.is_user(inner):
            return next(_makers(inner, lines), None)
    return None


def _statement_at(text: str, line: int) -> ast.stmt | None:
    statements = (node for node in ast.walk(tree_of(text)) if isinstance(node, (ast.Assign, ast.AnnAssign)))
    return next((node for node in statements if node.lineno == line), None)


def _makers(code: CodeType, lines: Lines) -> Iterator[Place]:
    """Yield where a function calls the constructor of generators."""
    text = "\n".join(lines.source(code.co_filename) or ())
    function = function_at(text, code.co_firstlineno)
    for node in ast.walk(function) if function is not None else ():
        if isinstance(node, ast.Call) and _makes(node):
            yield lines.place_of_node(code.co_filename, node)


def _makes(call: ast.Call) -> bool:
    return ast.unparse(call.func).rpartition(".")[2] == _MAKER
