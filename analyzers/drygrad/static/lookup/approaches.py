"""By which names code comes to a function: its own, and those of what calls it in its file, the nearest first."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

_FARTHEST = 4
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def approaches(tree: ast.Module, qualname: str) -> Mapping[str, int]:
    """Return the names that lead to a function, with over how many calls; its class leads there last of all.

    What Python itself calls, as ``__init__`` or the ``forward`` of a module, has the name of its class.
    """
    top = qualname.partition(".")[0]
    known = [*_functions(tree.body)]
    found: dict[str, int] = {}
    nearest = {_called_as(qualname)}
    for count in range(_FARTHEST):
        found |= dict.fromkeys(nearest - found.keys(), count)
        calling = {_called_as(name) for name, read in known if not read.isdisjoint(nearest)}
        nearest = calling - found.keys()
    return found | ({} if top in found else {top: _FARTHEST})


def nearness(names: frozenset[str] | set[str], leading: Mapping[str, int]) -> int:
    """Return over how many calls the nearest of some names leads to the function; more than any where none does."""
    return min((leading[name] for name in names & leading.keys()), default=_FARTHEST + 1)


def read_in(node: ast.AST) -> set[str]:
    """Return the names that code reads, and those of attributes."""
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return names | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}


def _functions(body: list[ast.stmt], around: str = "") -> Iterator[tuple[str, set[str]]]:
    """Yield the functions and methods of a file by their qualified names, with what they read."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{around}{node.name}.")
        elif isinstance(node, _DEFINITIONS):
            yield f"{around}{node.name}", read_in(node)
        elif isinstance(node, (ast.If, ast.Try)):
            yield from _functions(
                [inner for inner in ast.iter_child_nodes(node) if isinstance(inner, ast.stmt)], around
            )


def _called_as(qualname: str) -> str:
    owner, _, name = qualname.rpartition(".")
    is_implied = (name.startswith("__") and name.endswith("__")) or name == "forward"
    return owner.rpartition(".")[2] if owner and is_implied else name
