"""Inputs that the examples of a docstring give: ``>>> x = torch.randn(2, 3)``, ``>>> scaled(x)``."""

from __future__ import annotations

import ast
import doctest
from collections.abc import Sequence
from dataclasses import dataclass

from drygrad.dryrun.inputs.arguments import Argument, missing_parameters
from drygrad.dryrun.slicing import Bind
from drygrad.dryrun.targets import Target
from drygrad.parsing import parsed

SOURCE = "docstring"


@dataclass(frozen=True)
class Example:
    """A call of the target: what it passes, and the assignments before it."""

    before: tuple[Bind, ...]
    arguments: tuple[Argument, ...]
    receiver: Argument | None


def example_of(target: Target) -> Example | None:
    """Return the first call in the docstring of a function, or of a method's class, that gives all it needs."""
    function = target.function
    assert function is not None
    for documented in filter(None, (function, target.owner)):
        body = _statements(documented)
        for index, statement in enumerate(body):
            for call in (node for node in ast.walk(statement) if isinstance(node, ast.Call)):
                found = _read(call, body[:index], target)
                if found is not None and not missing_parameters(function, target.receiver, found.arguments):
                    return found
    return None


def _statements(documented: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> list[ast.stmt]:
    docstring = ast.get_docstring(documented) or ""
    try:
        return parsed("".join(e.source for e in doctest.DocTestParser().get_examples(docstring))).body
    except (ValueError, SyntaxError):
        return []


def _read(call: ast.Call, before: Sequence[ast.stmt], target: Target) -> Example | None:
    function, place = target.function, target.owner or target.function
    assert function is not None
    assert place is not None
    receiver = _receiver(call, before, target)
    if (
        receiver is None
        or any(isinstance(a, ast.Starred) for a in call.args)
        or any(k.arg is None for k in call.keywords)
    ):
        return None
    names = [p.arg for p in (*function.args.posonlyargs, *function.args.args) if p.arg != target.receiver]
    if len(call.args) > len(names):
        return None
    passed = [*zip(names, call.args, strict=False), *((str(k.arg), k.value) for k in call.keywords)]
    assigned = [s for s in before if isinstance(s, ast.Assign) and len(s.targets) == 1]
    return Example(
        tuple(Bind(ast.unparse(s.targets[0]), ast.unparse(s.value), place) for s in assigned),
        tuple(Argument(name, ast.unparse(value), SOURCE) for name, value in passed),
        Argument(target.receiver, receiver, SOURCE) if receiver else None,
    )


def _receiver(call: ast.Call, before: Sequence[ast.stmt], target: Target) -> str | None:
    """Return the object that a call of the target is made on, empty for a function; None: it calls something else."""
    written = ast.unparse(call.func)
    owner = target.owner
    if owner is None:
        return "" if written.rpartition(".")[2] == str(target.qualname) else None
    objects = {ast.unparse(s.targets[0]) for s in before if isinstance(s, ast.Assign) and _makes(s.value, owner.name)}
    if isinstance(call.func, ast.Attribute) and call.func.attr == str(target.qualname).rpartition(".")[2]:
        written = ast.unparse(call.func.value)
    elif not str(target.qualname).endswith(".forward"):
        return None
    return written if written in objects or _makes(call.func, owner.name) else None


def _makes(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == name
