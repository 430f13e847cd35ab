"""Where the text makes what a dataset delivers: the part of a sample in ``__getitem__``, or the attribute it is of."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import CodeType
from typing import Any, NamedTuple

import torch
from torch.utils.data import TensorDataset

from drygrad.worker.ledger import Held
from drygrad.worker.lines import Lines
from drygrad.worker.run import Place
from drygrad.worker.texts import class_with, function_at, tree_of

Key = tuple[object, ...]
_AROUND = 4


class Delivered(NamedTuple):
    """The dataset that a tensor of a batch has come from, its key in each sample, and the batch's other tensors."""

    dataset: Any
    key: Key
    others: tuple[Held, ...]


class Part(NamedTuple):
    """Where a dataset makes a part of its samples, and the name and value of the attribute that it reads for that."""

    place: Place
    attribute: str | None
    values: Any


def part_of_sample(delivered: Delivered, lines: Lines) -> Part | None:
    """Return where the user's dataset makes the part of a sample that a tensor was put together of.

    That is the only statement that sets the attribute which only this part is read from, else the part itself.
    """
    dataset, code = _own(delivered.dataset, lines)
    source = lines.source(code.co_filename) if code is not None else None
    if code is None or source is None:
        return None
    text = "\n".join(source)
    function = function_at(text, code.co_firstlineno)
    returned = [n.value for n in ast.walk(function) if isinstance(n, ast.Return)] if function is not None else []
    if function is None or len(returned) != 1 or returned[0] is None:
        return None
    part = _part(returned[0], delivered.key)
    if part is None:
        return None
    attribute = _attribute(function, part)
    stored = _stored(tree_of(text), function, attribute) if attribute is not None else None
    place = lines.place_of_node(code.co_filename, stored or part)
    if attribute is None or stored is None:
        return Part(place, None, None)
    return Part(place, attribute, getattr(dataset, attribute, None))


def table_of(delivered: Delivered) -> torch.Tensor | None:
    """Return the tensor that a dataset of torch's own has taken a part of its samples from."""
    dataset = delivered.dataset
    for _ in range(_AROUND):
        if isinstance(dataset, TensorDataset):
            place = delivered.key[0] if delivered.key else None
            return dataset.tensors[place] if isinstance(place, int) and place < len(dataset.tensors) else None
        dataset = getattr(dataset, "dataset", None)
    return None


def _own(dataset: Any, lines: Lines) -> tuple[Any, CodeType | None]:
    """Return the dataset whose samples the user's code makes, be it behind some of the library's, and that code."""
    for _ in range(_AROUND):
        code: CodeType | None = getattr(getattr(dataset, "__getitem__", None), "__code__", None)
        if code is not None and lines.is_user(code):
            return dataset, code
        dataset = getattr(dataset, "dataset", None)
    return None, None


def _part(node: ast.expr, key: Key) -> ast.expr | None:
    """Return the expression of one part of a sample."""
    for name in key:
        if isinstance(node, (ast.Tuple, ast.List)) and isinstance(name, int) and name < len(node.elts):
            node = node.elts[name]
        elif isinstance(node, ast.Dict):
            named = (v for k, v in zip(node.keys, node.values) if isinstance(k, ast.Constant) and k.value == name)
            found = next(named, None)
            if found is None:
                return None
            node = found
        else:
            return None
    return node


def _attribute(function: ast.AST, part: ast.expr) -> str | None:
    """Return the attribute that a part of a sample is an element of, as it is, and that nothing else is read from."""
    while isinstance(part, ast.Subscript):
        part = part.value
    name = next(_attributes(part), None) if isinstance(part, ast.Attribute) else None
    return name if [*_attributes(function)].count(name or "") == 1 else None


def _stored(tree: ast.Module, function: ast.AST, attribute: str) -> ast.expr | None:
    """Return the value of the only statement of a class that sets an attribute."""
    owner = class_with(tree, function)
    statements = [n for n in ast.walk(owner) if isinstance(n, ast.Assign)] if owner is not None else []
    bound = [pair for statement in statements for pair in _bound(statement)]
    values = [value for target, value in bound if ast.unparse(target) == f"self.{attribute}"]
    return values[0] if len(values) == 1 else None


def _bound(statement: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield what a statement binds, with the value; that of each in a tuple where it is written."""
    value = statement.value
    for target in statement.targets:
        if not isinstance(target, ast.Tuple):
            yield target, value
        elif isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
            yield from zip(target.elts, value.elts)
        else:
            yield from ((element, value) for element in target.elts)


def _attributes(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name) and inner.value.id == "self":
            yield inner.attr
