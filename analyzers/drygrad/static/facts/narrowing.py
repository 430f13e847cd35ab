"""What a test tells of the numbers that it compares, where it came out so."""

from __future__ import annotations

import ast
from dataclasses import replace

from drygrad.static.facts.elementwise_ranges import COMPARISONS
from drygrad.static.facts.frame import Frame, dotted_text
from drygrad.static.facts.interval import Range
from drygrad.static.facts.operations import OPERATORS
from drygrad.static.facts.ranges import MIRRORED, narrowed, range_of
from drygrad.static.facts.state import State
from drygrad.static.facts.values import Number, Quantity, Tensor


def narrow(frame: Frame, state: State, test: ast.expr, holds: bool) -> None:
    """Note in a state what a comparison tells: ``d > 0``, ``(d > 0).all()``, ``not (d == 0).any()``, ``d.all()``."""
    match test:
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            _compare(frame, state, (left, OPERATORS.get(type(operator).__name__, ""), right), holds)
        case ast.Call(func=ast.Attribute(value=inner, attr="all" | "any" as kind), args=[], keywords=[]):
            _of_all(frame, state, inner, kind, holds)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="all" | "any" as kind), args=[inner]):
            _of_all(frame, state, inner, kind, holds)
        case ast.Call(func=ast.Attribute(value=inner, attr="item"), args=[]):
            narrow(frame, state, inner, holds)
        case _:
            pass


def _of_all(frame: Frame, state: State, inner: ast.expr, kind: str, holds: bool) -> None:
    """All hold where ``all`` says so, and none where ``any`` denies it; else nothing is known of each."""
    if (kind == "all") is not holds:
        return
    if isinstance(inner, ast.Compare):
        narrow(frame, state, inner, holds)
    elif holds:
        _note(frame, state, inner, "ne", 0.0)


def _compare(frame: Frame, state: State, parts: tuple[ast.expr, str, ast.expr], holds: bool) -> None:
    left, operation, right = parts
    if operation not in COMPARISONS:
        return
    for subject, other, kind in ((left, right, operation), (right, left, MIRRORED[operation])):
        bound = range_of(frame.evaluate(other)) if dotted_text(subject) is not None else None
        if bound is not None and bound.low == bound.high:
            _note(frame, state, subject, kind, bound.low, holds)


def _note(frame: Frame, state: State, subject: ast.expr, operation: str, bound: float, holds: bool = True) -> None:
    name = dotted_text(subject)
    value = frame.evaluate(subject) if name is not None else None
    if name is None or not isinstance(value, (Tensor, Number, Quantity)):
        return
    known = range_of(value)
    left = narrowed(Range() if known is None else known, operation, bound, holds)
    if known is not None or left.positive:
        state.names[name] = replace(value, range=left)
