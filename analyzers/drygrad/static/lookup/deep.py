"""Asks jedi what names alone do not tell. It reads sources and stubs; the guard keeps it from importing them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drygrad.static.lookup.answers import Question

# Untyped for a strict checker: it has neither annotations nor stubs.
jedi: Any = importlib.import_module("jedi")
_parso_cache: Any = importlib.import_module("parso.cache")


def _no_file(*_: object, **__: object) -> None:
    """Neither read nor write."""


# The cache on disk is shared with other tools: a write that a time bound cuts off would leave half a pickle to them.
_parso_cache._load_from_file_system = _no_file
_parso_cache._save_to_file_system = _no_file


@dataclass(frozen=True, slots=True)
class Inferred:
    """What jedi says that a name is: its type, its full name, its name and the file that defines it."""

    kind: str
    full_name: str
    name: str
    path: Path | None


def infer(
    question: Question, origin: Path, root: Path, paths: Sequence[str], *, called: bool = False
) -> Inferred | None:
    """Return what an imported name is, or what calling it returns; None where jedi is not sure of one answer."""
    source = f"{_import_statement(question)}\n"
    source += "answer = answer()\nanswer" if called else "answer"
    return infer_at(source, source.count("\n") + 1, 0, origin, root, paths)


def infer_at(source: str, line: int, column: int, origin: Path, root: Path, paths: Sequence[str]) -> Inferred | None:
    """Return what stands at a place of a text (lines from 1, columns from 0); None where jedi is not sure of it."""
    # A process per interpreter is jedi's default; it would have to start one that the project may have brought.
    project = jedi.Project(root, sys_path=[*paths, *sys.path], smart_sys_path=True)
    script = jedi.Script(source, path=origin, project=project, environment=jedi.InterpreterEnvironment())
    found = {
        Inferred(name.type, name.full_name or "", name.name, name.module_path) for name in script.infer(line, column)
    }
    return found.pop() if len(found) == 1 else None


def _import_statement(question: Question) -> str:
    *package, name = question.parts
    if question.level or package:
        return f"from {'.' * question.level}{'.'.join(package)} import {name} as answer"
    return f"import {name} as answer"
