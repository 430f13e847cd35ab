"""Another file of the project: what it defines, to be followed from the file that is looked at."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from threading import RLock

from drygrad.parsing import parsed
from drygrad.static.facts.linked import FIRST_LINE, LinkedScope, Links
from drygrad.static.facts.module import OTHERS, WELL_KNOWN, ModuleFacts
from drygrad.static.facts.notes import Body
from drygrad.static.facts.places.following import Places, Summary

_LIBRARIES = frozenset({"lightning", "pytorch_lightning", "transformers"})
"""Libraries whose classes the facts know by name, besides torch."""
_TURN = RLock()
"""Files that several others call are evaluated in one thread at a time."""
_CHANGES_DEFAULTS = ("set_default_device", "set_default_dtype", "set_default_tensor_type")


class OtherFile(ModuleFacts):
    """The functions and classes of a file; what else its top level does is not executed."""

    def __init__(self, path: Path, tree: ast.Module, text: str, links: Links) -> None:
        self.path = path
        self.scope = LinkedScope(self)
        super().__init__(tree, text, links=links)

    @classmethod
    def of(cls, path: Path, text: str, links: Links) -> OtherFile | None:
        """Read a file; None where it is no Python, or changes what torch takes for granted."""
        if any(name in text for name in _CHANGES_DEFAULTS):
            return None
        try:
            tree = parsed(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        tree.body = list(_definitions(tree.body))
        ast.increment_lineno(tree, FIRST_LINE)
        try:
            return cls(path, tree, text, links)
        except RecursionError:
            return None

    def imported(self, name: str) -> str:
        """Return a name that says which file imports it, where that matters."""
        root = name.partition(".")[0]
        return name if root in WELL_KNOWN or root in _LIBRARIES else f"{OTHERS}{self.path}>{name}"

    def evaluate_functions(self) -> None:
        """Evaluate none on its own: they are followed where they are called."""

    def is_called(self, function: ast.AST) -> bool:
        """Say that any function may have callers: they are in other files."""
        return True

    def summary(self, node: ast.AST) -> Summary:
        """Return where the results of a function are, and what meets in it."""
        with _TURN:
            return self._places.summary(node)

    def body_of(self, function: ast.AST) -> Body | None:
        """Return what evaluating a function's body has found out; it is evaluated when somebody asks."""
        known = super().body_of(function)
        defined = self._places.functions.get(function) if known is None else None
        if defined is not None:
            self.evaluate_at_home(defined)
        return super().body_of(function)

    @cached_property
    def _places(self) -> Places:
        return Places(self)


def _definitions(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that bind names, those in what stands around a program left out."""
    for statement in body:
        match statement:
            case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
                pass
            case (
                ast.Import()
                | ast.ImportFrom()
                | ast.FunctionDef()
                | ast.AsyncFunctionDef()
                | ast.ClassDef()
                | ast.Assign()
                | ast.AnnAssign()
                | ast.If()
                | ast.Try()
            ):
                yield statement
            case _:
                pass
