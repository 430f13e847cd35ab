"""The axis of the samples, as a function's text names it: ``x: (batch, time, dim)``, ``b, t, d = x.shape``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from drygrad.dryrun.inputs.annotations import members
from drygrad.dryrun.inputs.hints import SHAPE, tokens_of
from drygrad.dryrun.targets import Target
from drygrad.static.source import Source

_BATCH = re.compile(r"b|bs|bsz|(n|num)?_?batch(_?size)?", re.IGNORECASE)
_SAMPLES = frozenset(
    "samples examples instances images pictures videos clips recordings utterances sentences documents sequences "
    "series trajectories episodes graphs molecules patients subjects users".split()
)
_AFTER_N = frozenset({"C", "C_in", "Cin", "L", "T"})
_WRITTEN = re.compile(rf"(?<![\w.]){SHAPE}")
_COMMENT = re.compile(r"#.*")


def samples_axis(source: Source, target: Target) -> int | None:
    """Return which axis of its inputs a target's text says to count samples; None where it says none, or several."""
    function = target.function
    if function is None:
        return None
    said = {*_axes(_shapes(source, target, function)), *_axes(_unpacked(function))}
    return said.pop() if len(said) == 1 else None


def _axes(shapes: Iterator[list[str]]) -> Iterator[int]:
    """Yield the position of the samples in each shape that has them."""
    for names in shapes:
        if _are_no_axes([name.lower() for name in names]):
            continue
        if names[:1] == ["N"] and names[1:] and names[1] in _AFTER_N:
            yield 0
        yield from (position for position, name in enumerate(names) if _counts_samples(name))


def _are_no_axes(names: list[str]) -> bool:
    """Say whether names stand for something else: a pair ``(a, b)``, colours."""
    return names == ["a", "b"] or {"r", "g", "b"} <= {*names}


def _counts_samples(name: str) -> bool:
    return bool(_BATCH.fullmatch(name)) or name.lower() in _SAMPLES


def _shapes(source: Source, target: Target, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[list[str]]:
    """Yield the shapes in docstrings, in the comments before the first statement, and in annotations."""
    documented = [ast.get_docstring(node) or "" for node in (function, target.owner) if node is not None]
    head = range(function.lineno, _first_statement(function))
    comments = [match[0] for line in head for match in _COMMENT.finditer(source.line_text(line))]
    for text in (*documented, *comments):
        for match in _WRITTEN.finditer(text):
            names = tokens_of(match["shape"])
            if len(names) > 1 or match["shape"].rstrip().endswith(","):
                yield names
    for parameter in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
        for node in (part for member in members(parameter.annotation) for part in ast.walk(member)):
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
                words = (e.value for e in node.slice.elts if isinstance(e, ast.Constant))
                yield from (word.split() for word in words if isinstance(word, str))


def _first_statement(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the line of the first statement after the docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return body[0].lineno if body else function.body[0].lineno


def _unpacked(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[list[str]]:
    """Yield the names that the sizes of a parameter are given: ``b, t, d = x.shape``, ``b = x.size(0)``."""
    parameters = {a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    rebound = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        (to,) = node.targets
        of, axis = _sized(node.value)
        if of not in parameters - rebound:
            continue
        if axis is None and isinstance(to, ast.Tuple):
            yield [e.id if isinstance(e, ast.Name) else "" for e in to.elts]
        elif axis is not None and isinstance(to, ast.Name):
            yield [*[""] * axis, to.id]


def _sized(node: ast.expr) -> tuple[str, int | None]:
    """Return the name whose sizes an expression is, and of which axis alone; an empty one of another expression."""
    match node:
        case ast.Attribute(ast.Name(of), "shape") | ast.Call(ast.Attribute(ast.Name(of), "size"), []):
            return of, None
        case ast.Subscript(ast.Attribute(ast.Name(of), "shape"), ast.Constant(int(axis))) | ast.Call(
            ast.Attribute(ast.Name(of), "size"), [ast.Constant(int(axis))]
        ):
            return of, axis
        case _:
            return "", None
