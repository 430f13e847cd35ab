"""Classes that a call makes: ``Step = namedtuple("Step", "seen done")``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from drygrad.parsing import parsed


def named_tuples(tree: ast.Module) -> dict[str, ast.ClassDef]:
    """Return the named tuples that a file makes by a call, as if they were written as classes."""
    found: dict[str, ast.ClassDef] = {}
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=called, args=[_, given])):
                fields = [*_fields(given)]
                if ast.unparse(called).rpartition(".")[2] in ("namedtuple", "NamedTuple") and fields:
                    found[name] = _class(name, fields, statement)
            case _:
                pass
    return found


def _fields(given: ast.expr) -> Iterator[tuple[str, str]]:
    """Yield the names of the fields with their types."""
    match given:
        case ast.Constant(value=str(names)):
            yield from ((name, "object") for name in names.replace(",", " ").split())
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            for element in elements:
                match element:
                    case ast.Constant(value=str(name)):
                        yield name, "object"
                    case ast.Tuple(elts=[ast.Constant(value=str(name)), kind]):
                        yield name, ast.unparse(kind)
                    case _:
                        pass
        case _:
            pass


def _class(name: str, fields: list[tuple[str, str]], place: ast.stmt) -> ast.ClassDef:
    lines = [f"class {name}(NamedTuple):", *(f"    {field}: {kind}" for field, kind in fields)]
    made = parsed("\n".join(lines)).body[0]
    assert isinstance(made, ast.ClassDef)
    return ast.copy_location(made, place)
