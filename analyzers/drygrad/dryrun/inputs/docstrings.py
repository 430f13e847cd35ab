"""Inputs that the examples of a docstring give: ``>>> x = torch.randn(2, 3)``, ``>>> scaled(x)``."""

from __future__ import annotations

import ast
import doctest
from dataclasses import dataclass


@dataclass(frozen=True)
class Example:
    """A call in an example, the statements before it, and the text of the object it is made on, if on one."""

    call: ast.Call
    before: tuple[ast.stmt, ...]
    receiver: str | None


def examples(documented: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, name: str) -> list[Example]:
    """Return the calls of ``name`` (``*`` for a call of any object) that the docstring's examples make."""
    docstring = ast.get_docstring(documented)
    if not docstring or ">>>" not in docstring:
        return []
    try:
        text = "".join(example.source for example in doctest.DocTestParser().get_examples(docstring))
        body = ast.parse(text).body
    except (ValueError, SyntaxError):
        return []
    found: list[Example] = []
    for index, statement in enumerate(body):
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and (receiver := _receiver(node, name, body[:index])) is not None:
                found.append(Example(node, tuple(body[:index]), receiver or None))
    return found


def _receiver(call: ast.Call, name: str, before: list[ast.stmt]) -> str | None:
    """Return the object that a call is made on, empty where it is on none; None where it calls something else."""
    written = ast.unparse(call.func)
    if written.rpartition(".")[2] == name:
        owner = written.rpartition(".")[0]
        return owner if owner in _objects(before) else ""
    return written if name == "*" and written in _objects(before) else None


def _objects(before: list[ast.stmt]) -> set[str]:
    assigned = (s for s in before if isinstance(s, ast.Assign))
    return {t.id for s in assigned for t in s.targets if isinstance(t, ast.Name)}
