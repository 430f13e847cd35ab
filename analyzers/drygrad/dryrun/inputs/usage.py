"""How a function uses one of its parameters: what is read from it, how it is unpacked, called, iterated."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_PATTERN_SIDE = re.compile(r"\([^)]*\)|[\w.]+")
_COUNTING = frozenset("range arange linspace eye randperm".split())
"""What is called with numbers only."""
_EINOPS = frozenset(("rearrange", "reduce", "repeat"))
_PASSING = frozenset("enumerate tqdm iter list tuple zip reversed next prefetch prepare".split())


@dataclass
class Usage:
    """What a body does with one name.

    ``ranks`` are numbers of dimensions that it relies on, the surest first; ``keys`` what it is subscripted with by
    text; ``attributes`` and ``methods`` what is read from it; ``items`` the targets that its elements are bound to.
    """

    ranks: list[int] = field(default_factory=list[int])
    least_rank: int = 0
    attributes: list[str] = field(default_factory=list[str])
    methods: list[str] = field(default_factory=list[str])
    keys: list[str] = field(default_factory=list[str])
    items: list[ast.expr] = field(default_factory=list[ast.expr])
    is_called: bool = False
    calls: list[ast.Call] = field(default_factory=list[ast.Call])
    is_number: bool = False
    is_index: bool = False
    is_unpacked: bool = False
    """Whether it is passed on as ``**name``."""
    is_sequence: bool = False


def usage_of(name: str, body: Sequence[ast.AST]) -> Usage:
    """Return how statements use a name (or ``self.attribute``)."""
    found = Usage()
    for node in _nodes(body):
        if isinstance(node, ast.Attribute) and _is(node.value, name):
            found.attributes.append(node.attr)
        if isinstance(node, ast.Call):
            _read_call(node, name, found)
        elif isinstance(node, ast.Assign):
            _read_assignment(node, name, found)
        elif isinstance(node, ast.Subscript):
            _read_subscript(node, name, found)
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            target = _iterated(node.iter, node.target, name)
            found.items += [target] if target is not None else []
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.FloorDiv, ast.Mod, ast.Pow)):
            found.is_number |= _is(node.left, name) or (_is(node.right, name) and not isinstance(node.op, ast.Pow))
    return found


def _nodes(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    for node in body:
        yield from ast.walk(node)


def _is(node: ast.AST | None, name: str) -> bool:
    if "." in name:
        owner, _, attribute = name.rpartition(".")
        return isinstance(node, ast.Attribute) and node.attr == attribute and _is(node.value, owner)
    return isinstance(node, ast.Name) and node.id == name


def _read_call(node: ast.Call, name: str, found: Usage) -> None:
    function = node.func
    if _is(function, name):
        found.is_called = True
        found.calls.append(node)
    if isinstance(function, ast.Attribute) and _is(function.value, name):
        found.methods.append(function.attr)
        if function.attr == "permute":
            found.ranks.append(len(node.args))
        if function.attr in ("size", "transpose", "flatten", "sum", "mean", "softmax"):
            _reach(found, node.args)
    called = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    if node.args and _is(node.args[0], name):
        _read_first_argument(node, called, found)
    if any(keyword.arg is None and _is(keyword.value, name) for keyword in node.keywords):
        found.is_unpacked = True
    if called in _COUNTING and any(_is_term(argument, name) for argument in node.args):
        found.is_number = True
    if called == "einsum":
        _read_equation(node, name, found)


def _is_term(node: ast.expr, name: str) -> bool:
    """Say whether an expression is a name, or arithmetic with it."""
    if isinstance(node, ast.BinOp):
        return _is_term(node.left, name) or _is_term(node.right, name)
    return _is(node, name)


def _read_equation(node: ast.Call, name: str, found: Usage) -> None:
    """Read the dimensions of an operand off an equation: ``"bhid,jd->bhij"`` or ``"b h i d, j d -> b h i j"``."""
    texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    operands = [a for a in node.args if not isinstance(a, ast.Constant)]
    sides = texts[0].partition("->")[0].split(",") if texts else []
    for side, operand in zip(sides, operands, strict=False):
        if _is(operand, name) and "..." not in side:
            found.ranks.append(len(side.split()) if " " in side.strip() else len(side.strip()))


def _read_first_argument(node: ast.Call, called: str, found: Usage) -> None:
    if called in _EINOPS and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
        left = str(node.args[1].value).partition("->")[0]
        if "..." not in left:
            found.ranks.append(len(_PATTERN_SIDE.findall(left)))
    if called in ("softmax", "log_softmax", "transpose", "flatten", "sum", "mean"):
        _reach(found, node.args[1:2])


def _reach(found: Usage, dims: Sequence[ast.expr]) -> None:
    """Remember that a dimension is read: the tensor must have it."""
    for dim in dims:
        if isinstance(dim, ast.Constant) and isinstance(dim.value, int) and not isinstance(dim.value, bool):
            found.least_rank = max(found.least_rank, dim.value + 1)


def _read_assignment(node: ast.Assign, name: str, found: Usage) -> None:
    target, value = node.targets[0], node.value
    if not isinstance(target, (ast.Tuple, ast.List)):
        return
    values = value.elts if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts) else []
    for one, its_value in zip(target.elts, values, strict=False):
        if isinstance(one, (ast.Tuple, ast.List)) and _is_shape(its_value, name):
            found.ranks.append(len(one.elts))
    starred = [*values, value]
    for its_value in starred:
        if isinstance(its_value, ast.Starred) and _is_shape(its_value.value, name):
            found.ranks.append(len(target.elts) - len(values) + 1)
    if _is_shape(value, name):
        if any(isinstance(e, ast.Starred) for e in target.elts):
            found.least_rank = max(found.least_rank, len(target.elts))
        else:
            found.ranks.append(len(target.elts))
    elif _is(value, name):
        found.items.append(target)


def _is_shape(node: ast.expr, name: str) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr == "size" and not node.args and _is(node.func.value, name)
    return isinstance(node, ast.Attribute) and node.attr == "shape" and _is(node.value, name)


def _read_subscript(node: ast.Subscript, name: str, found: Usage) -> None:
    index = node.slice
    if _is(index, name):
        found.is_index = True
    if isinstance(node.value, ast.Attribute) and node.value.attr == "shape" and _is(node.value.value, name):
        _reach(found, [index])
    if not _is(node.value, name):
        return
    if isinstance(index, ast.Constant) and isinstance(index.value, str):
        found.keys.append(index.value)
    elif isinstance(index, ast.Constant):
        found.is_sequence = True
    elif isinstance(index, ast.Tuple) and not any(isinstance(e, ast.Constant) and e.value is ... for e in index.elts):
        count = sum(not (isinstance(e, ast.Constant) and e.value is None) for e in index.elts)
        found.least_rank = max(found.least_rank, count)


def _iterated(iterable: ast.expr, target: ast.expr, name: str) -> ast.expr | None:
    """Return what the elements of a name are bound to by a loop over it."""
    if _is(iterable, name):
        return target
    if not isinstance(iterable, ast.Call):
        return None
    called = ast.unparse(iterable.func).rpartition(".")[2]
    inner = next((a for a in iterable.args if _iterated(a, target, name) is not None), None)
    if inner is None:
        return None
    if called == "enumerate" and isinstance(target, ast.Tuple) and len(target.elts) == 2:
        return _iterated(inner, target.elts[1], name)
    if called == "zip" and isinstance(target, ast.Tuple) and len(target.elts) == len(iterable.args):
        return _iterated(inner, target.elts[iterable.args.index(inner)], name)
    return _iterated(inner, target, name) if called in _PASSING or "tqdm" in called or "progress" in called else target
