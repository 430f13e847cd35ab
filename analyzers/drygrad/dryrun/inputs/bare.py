"""Objects without their constructor: of their class, with the attributes that a method reads of them.

They stand in where the constructor asks for what nobody can propose. What they hold is what the constructor would give
it by its text, where that needs nothing else, and what the methods use it as.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Protocol

from drygrad.dryrun.inputs.arguments import FunctionNode
from drygrad.dryrun.inputs.nodes import Node, text
from drygrad.dryrun.inputs.preparing import reached, read_by
from drygrad.dryrun.inputs.recognising import OF_MODULES
from drygrad.dryrun.inputs.tracing import Tracer
from drygrad.dryrun.inputs.usage import Usage
from drygrad.dryrun.names import bound_names
from drygrad.dryrun.slicing import free_of_text

SOURCE = "without its constructor"
_MOST = 24


class _Proposer(Protocol):
    def of(self, usage: Usage, depth: int = 0) -> Node: ...


def bare(
    tracer: Tracer, proposer: _Proposer, usage: Usage, name: str, called: Sequence[FunctionNode], *, is_module: bool
) -> Node | None:
    """Return an object of a class, called ``name``, that has what the methods read; None where they read too much."""
    owner = usage.owner
    assert owner is not None
    methods = tracer.methods(owner)
    known = {*methods, *tracer.fields(owner), *(OF_MODULES if is_module else ())}
    read = [one for one in dict.fromkeys(read_by(reached(called, methods))) if one not in known]
    read = [one for one in read if not one.startswith("__")]
    if len(read) > _MOST:
        return None
    begun = methods.get("__init__")
    written = dict(_written(reached([begun], methods))) if begun is not None else {}
    parts = [(one, written.get(one) or proposer.of(usage.attribute(one), 1)) for one in read]
    return {"kind": "bare", "text": name, "parts": parts, "source": SOURCE, "is_module": is_module}


def _written(methods: Sequence[FunctionNode]) -> Iterator[tuple[str, Node]]:
    """Yield what constructors give attributes by an expression that needs nothing of theirs; the last one counts."""
    for method in methods:
        own = {*bound_names(method), *(argument.arg for argument in _arguments(method))}
        for node in ast.walk(method):
            own |= bound_names(node) if isinstance(node, ast.stmt) and node is not method else set[str]()
        for node in ast.walk(method):
            match node:
                case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=value):
                    if _is_filled(value) and not free_of_text(ast.unparse(value)) & own:
                        yield name, text(ast.unparse(value), SOURCE)
                case _:
                    pass


def _is_filled(value: ast.expr) -> bool:
    """Say whether an expression is more than a place that something else is put in later."""
    if isinstance(value, ast.Constant):
        return value.value is not None and value.value != ""
    return isinstance(value, ast.Call)


def _arguments(function: FunctionNode) -> Iterator[ast.arg]:
    given = function.args
    yield from (*given.posonlyargs, *given.args, *given.kwonlyargs)
    yield from (one for one in (given.vararg, given.kwarg) if one is not None)
