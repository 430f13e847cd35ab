"""What other functions of the project say of their parameters of the same name: an annotation, a default.

A helper is often given on, without a word, what the function that users call says all about.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from drygrad.dryrun.inputs import annotations
from drygrad.dryrun.inputs.arguments import FunctionNode
from drygrad.dryrun.inputs.neighbours import Neighbours
from drygrad.dryrun.targets import definitions

_SAYING_NOTHING = frozenset(("", "Any", "object", "None"))


@dataclass(frozen=True)
class Namesake:
    """What is said of a parameter somewhere."""

    annotation: ast.expr | None
    default: ast.expr | None


class Namesakes:
    """The parameters of a file's functions, and of the files that it imports from, by their names."""

    def __init__(self, tree: ast.Module, neighbours: Neighbours) -> None:
        self._tree = tree
        self._neighbours = neighbours

    def annotation(self, name: str) -> ast.expr | None:
        """Return how a parameter of that name is annotated, where all that annotate one say the same kind."""
        found = [each.annotation for each in self._known.get(name, ()) if each.annotation is not None]
        kinds = {annotations.last_name(kind) for each in found for kind in annotations.members(each)[:1]}
        return found[0] if len(kinds) == 1 else None

    def default(self, name: str) -> str | None:
        """Return the first number, truth value or text that a parameter of that name has by default."""
        defaults = (each.default for each in self._known.get(name, ()))
        return next((ast.unparse(value) for value in defaults if value is not None and _is_plain(value)), None)

    @cached_property
    def _known(self) -> Mapping[str, list[Namesake]]:
        found: dict[str, list[Namesake]] = {}
        for function in self._functions():
            for name, said in _said_by(function):
                found.setdefault(name, []).append(said)
        return found

    def _functions(self) -> Iterator[FunctionNode]:
        own = (node for _, node in definitions(self._tree.body))
        others: Iterable[ast.AST] = (n for names in _each(self._neighbours) for n in names.values())
        seen: set[int] = set()
        for node in (*own, *others):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and id(node) not in seen:
                seen.add(id(node))
                yield node


def _each(neighbours: Neighbours) -> Iterator[Mapping[str, ast.AST]]:
    """Yield the definitions of each file once."""
    return iter({id(names): names for names in neighbours.names.values()}.values())


def _said_by(function: FunctionNode) -> Iterator[tuple[str, Namesake]]:
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(given.defaults)) + [*given.defaults]
    named = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    for parameter, default in (*zip(positional, defaults, strict=True), *named):
        kinds = [annotations.last_name(kind) for kind in annotations.members(parameter.annotation)]
        annotation = parameter.annotation if kinds and kinds[0] not in _SAYING_NOTHING else None
        if annotation is not None or default is not None:
            yield parameter.arg, Namesake(annotation, default)


def _is_plain(value: ast.expr) -> bool:
    value = value.operand if isinstance(value, ast.UnaryOp) else value
    return isinstance(value, ast.Constant) and isinstance(value.value, (bool, float, str)) and value.value != ""
