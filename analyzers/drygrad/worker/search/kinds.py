"""Inputs of the wrong kind: what a constructor does not take, tensors for arrays, objects of other classes."""

from __future__ import annotations

import ast
import linecache
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from types import FrameType
from typing import Any, cast

import torch

from drygrad.worker.search.comparisons import test_of, value_of
from drygrad.worker.search.nodes import Node, Path
from drygrad.worker.search.trial import Failure
from drygrad.worker.search.want import Want
from drygrad.worker.search.words import named_in_line

_SURPLUS = re.compile(r"got an unexpected keyword argument '(?P<name>\w+)'")
_ARRAY = re.compile(
    r"not implemented for NumPy arrays|expected np\.ndarray|'numpy\.ndarray' and 'Tensor'|'Tensor' and 'numpy\.ndarray'"
)
_SEVERAL = re.compile(r"argument 'tensors' \(position 1\) must be tuple of Tensors, not Tensor")
_FLAG = re.compile(r"must be bool, not (int|float|str|NoneType)")
_NUMPY = ".numpy()"
_MOST_CLASSES = 4
_OPERANDS = 2


def misfits(failure: Failure) -> Iterator[Want]:
    """Yield what is of another kind than the code takes."""
    text = str(failure.error)
    surplus = _SURPLUS.search(text)
    if surplus is not None and failure.building is not None:
        yield Want("surplus", text=surplus["name"], paths=frozenset((failure.building,)))
    if (isinstance(failure.error, TypeError) and _ARRAY.search(text)) or _reads_as_array(failure.error):
        yield Want("array", paths=named_in_line(failure), why="it is passed to NumPy")
    if isinstance(failure.error, TypeError) and _SEVERAL.search(text):
        yield Want("several", paths=named_in_line(failure), why="several tensors are combined")
    if isinstance(failure.error, TypeError) and _FLAG.search(text):
        yield Want("flag", choices=tuple(_words(failure)), why="it is True or False")
    yield from _instances(failure)


def _words(failure: Failure) -> Iterator[str]:
    """Yield the names in the lines that an error has come through."""
    for trace in failure.frames():
        line = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        yield from re.findall(r"[A-Za-z_]\w*", line)


def _reads_as_array(error: BaseException) -> bool:
    """Say whether an attribute was read of a tensor that only an array has."""
    numpy: Any = sys.modules.get("numpy")
    owner, name = getattr(error, "obj", None), getattr(error, "name", None)
    return isinstance(owner, torch.Tensor) and numpy is not None and hasattr(numpy.ndarray, str(name))


def _instances(failure: Failure) -> Iterator[Want]:
    """Yield the classes that a check asks for which has failed: ``assert isinstance(model, (Tree, Forest))``."""
    for trace in failure.frames()[:1]:
        frame = trace.tb_frame
        for value, kinds in _checked(frame, trace.tb_lineno):
            path = failure.path_of(value)
            names = tuple(_written(kind) for kind in kinds if not isinstance(value, kind))[:_MOST_CLASSES]
            if path is not None and names and not isinstance(value, kinds):
                yield Want("instance", paths=frozenset((path,)), choices=names, why="the code checks for this class")


def _checked(frame: FrameType, line: int) -> Iterator[tuple[Any, tuple[type, ...]]]:
    """Yield the values that the condition of an error asks classes of, with these."""
    test = test_of(frame.f_code.co_filename, line)
    for call in ast.walk(test) if test is not None else ():
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "isinstance" and len(call.args) == _OPERANDS:
            value, asked = (value_of(argument, frame) for argument in call.args)
            kinds = cast("tuple[Any, ...]", asked if isinstance(asked, tuple) else (asked,))
            if all(isinstance(kind, type) for kind in kinds):
                yield value, kinds


def _written(kind: type) -> str:
    """Return an expression for a class."""
    if kind.__module__ == "builtins":
        return kind.__name__
    return f"__import__({kind.__module__!r}, fromlist=['_']).{kind.__qualname__}"


def without_argument(proposal: Node, want: Want) -> Iterator[Node]:
    """Leave out what a constructor does not take."""
    under = want.paths or frozenset[Path]()
    for path, node in proposal.nodes():
        if node.kind == "call" and path[:1] in {place[:1] for place in under} and node.part(want.text) is not None:
            rest = tuple((name, part) for name, part in node.parts if name != want.text)
            yield proposal.replaced(path, replace(node, parts=rest))


def as_array(proposal: Node, want: Want) -> Iterator[Node]:
    """Give arrays instead of tensors."""
    for path, leaf in [*proposal.leaves()]:
        wanted = want.paths is None or path in want.paths
        if leaf.kind == "tensor" and wanted and not proposal.stays(path):
            plain = replace(leaf, others=(), device="")
            yield proposal.replaced(path, Node("changed", _NUMPY, parts=(("value", plain),), why=want.why))


def as_several(proposal: Node, want: Want) -> Iterator[Node]:
    """Give a list of tensors instead of one."""
    for path in want.paths or ():
        leaf = proposal.found_at(path)
        if leaf is not None and leaf.kind == "tensor":
            alike = replace(leaf, others=())
            yield proposal.replaced(path, Node("list", parts=(("0", alike), ("1", alike)), why=want.why))


def as_flag(proposal: Node, want: Want) -> Iterator[Node]:
    """Give False or True instead of a number or a word to what a line names."""
    for path, leaf in [*proposal.leaves()]:
        if path[-1] in want.choices and leaf.kind in ("number", "text") and leaf.text not in ("True", "False"):
            yield from (proposal.replaced(path, Node("text", text, why=want.why)) for text in ("False", "True"))


def as_instance(proposal: Node, want: Want) -> Iterator[Node]:
    """Give an object of a class that is asked for, made with what it was made with that stands there."""
    for path in want.paths or ():
        node = proposal.at(path)
        for name in want.choices:
            parts = node.parts if node.kind == "call" else ()
            yield proposal.replaced(path, Node("call", name, parts=parts, why=want.why, is_module=node.is_module))
