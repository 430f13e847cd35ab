"""Types that a docstring names of parameters without an annotation: in the fields of Sphinx, of Google or of NumPy."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from drygrad.dryrun.inputs import annotations
from drygrad.dryrun.inputs.arguments import FunctionNode
from drygrad.parsing import parsed_expression

_FIELDS = (
    re.compile(r"^[ \t]*:type[ \t]+(?P<name>\w+)[ \t]*:(?P<type>[^\n]+)", re.MULTILINE),
    re.compile(r"^[ \t]*:param[ \t]+(?P<type>[\w.]+)[ \t]+(?P<name>\w+)[ \t]*:", re.MULTILINE),
    re.compile(r"^[ \t]*`{0,2}(?P<name>\w+)`{0,2}[ \t]*\((?P<type>(?:[^()\n]|\([^()\n]*\))+)\)[ \t]*:", re.MULTILINE),
    re.compile(r"^(?P<indent>[ \t]*)(?P<name>\w+)[ \t]*:[ \t]+(?P<type>[^\n]+)\n(?P=indent)[ \t]+\S", re.MULTILINE),
)
_MARKUP = re.compile(r"`|:?\b(?:class|obj|py:class):|~|\b(?:an?|is|instance of|type)\s+", re.IGNORECASE)
_SEVERAL = re.compile(r"(?P<kind>list|tuple|sequence|iterable)s?\s*(?:of\s+|\()(?P<item>[\w.]+)", re.IGNORECASE)
_ONE = re.compile(r"[A-Za-z_][\w.]*(?:\[[\w., \[\]]*\])?")
_CALLED: Mapping[str, str] = {
    "integer": "int", "ints": "int", "floats": "float", "boolean": "bool", "string": "str", "strings": "str",
    "tensor": "Tensor", "tensors": "Tensor", "array": "ndarray", "numpy": "ndarray", "callable": "Callable",
    "function": "Callable", "module": "Module",
}  # fmt: skip
_KNOWN = frozenset("int float bool str Callable ndarray list tuple dict List Tuple Dict Sequence Iterable".split())


def documented_types(function: FunctionNode, owner: ast.ClassDef | None) -> Mapping[str, ast.expr]:
    """Return the types that a function's docstring names, by parameter; of a constructor, that of its class, too."""
    nodes = (owner, function) if owner is not None and function.name == "__init__" else (function,)
    return {name: kind for node in nodes for name, kind in _read(ast.get_docstring(node) or "")}


def _read(prose: str) -> Iterator[tuple[str, ast.expr]]:
    for pattern in _FIELDS:
        for field in pattern.finditer(prose):
            kind = _type(field["type"])
            if kind is not None:
                yield field["name"], kind


def _type(written: str) -> ast.expr | None:
    """Return the first alternative of a type in words, as an annotation; None where it is none that is known."""
    plain = _MARKUP.sub("", written).strip()
    several = _SEVERAL.match(plain)
    item = _named(several["item"]) if several is not None else None
    if several is not None and item is not None:
        return _expression(f"{several['kind'].capitalize()}[{item}]")
    one = _ONE.match(plain)
    name = _named(one[0]) if one is not None else None
    return _expression(name) if name is not None else None


def _named(written: str) -> str | None:
    name = _CALLED.get(written.lower(), written)
    last = annotations.last_name(_expression(name))
    is_class = last[:1].isupper() and any(letter.islower() for letter in last) and "_" not in last
    return name if last in _KNOWN or is_class else None


def _expression(written: str) -> ast.expr | None:
    try:
        return parsed_expression(written)
    except (SyntaxError, ValueError):
        return None
