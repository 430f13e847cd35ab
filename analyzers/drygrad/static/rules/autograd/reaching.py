"""What a loss is computed from: the layers that a gradient reaches, and those that lie past an end of the graph.

This is one account of all ways to leave a graph: a mode, ``detach``, an operation without a derivative or with one that
is zero, a Python number, a copy, a new leaf. It follows the values, so helpers, attributes, tuples and branches make no
difference. What is not known counts as reached.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, cast

from drygrad.static.context import Context, FunctionNode
from drygrad.static.facts.values import (
    Choice,
    Constant,
    Device,
    Dtype,
    Function,
    Mapped,
    Method,
    Number,
    Object,
    Origin,
    ParameterList,
    Quantity,
    Reference,
    Sequence,
    Tensor,
    Value,
    is_unknown,
)
from drygrad.static.rules.autograd.graph import COPIES, recorded
from drygrad.static.syntax import bound_names, last_assignment, nodes_within
from drygrad.static.tree import walk
from drygrad.torchmodel.judgements import FLAT

_DEPTH = 8
_DATA = "batch"
_NUMBERS = frozenset({"item", "tolist"})
_LEAVES = _NUMBERS | {"numpy", "detach"}
_ALWAYS_COPY = COPIES | {"from_numpy"}
_GIVEN = (Constant, Device, Dtype, Reference)


class Cut(NamedTuple):
    """Where a graph ends, and how."""

    at: ast.expr
    kind: Literal["mode", "detach", "choice", "number", "copy", "flat", "leaf"]

    @property
    def on_purpose(self) -> bool:
        """Whether what was written says that no gradient is wanted."""
        return self.kind in ("mode", "detach")


@dataclass
class Reach:
    """What one loss, or several, were computed from, by the calls that constructed the layers and parameters.

    ``whole`` are modules that went somewhere as a whole; ``leaf`` says that a tensor is reached, too, that asks for
    gradients itself; ``named`` that it is known where each reached module was constructed; ``complete`` that all that
    may carry a gradient is known.
    """

    live: set[ast.expr] = field(default_factory=set[ast.expr])
    beyond: dict[ast.expr, Cut] = field(default_factory=dict[ast.expr, Cut])
    whole: list[Object] = field(default_factory=list[Object])
    named: bool = True
    leaf: bool = False
    complete: bool = True

    @property
    def trains(self) -> bool:
        """Whether a gradient reaches a layer, or may reach one."""
        return bool(self.live or self.whole) or not self.complete

    @property
    def ends(self) -> list[Cut]:
        """The ends of the graph, where all of it lies past one."""
        return [] if self.trains or self.leaf else list(self.beyond.values())


class _Way(NamedTuple):
    """A value on the way from a loss to what it was computed from; ``cut`` where the graph has ended before it."""

    value: Value
    cut: Cut | None
    written: ast.expr | None = None


def reach_of(ctx: Context, roots: Iterable[tuple[Value, ast.expr | None]]) -> Reach:
    """Return what losses were computed from."""
    walked = _Walk(ctx, Reach())
    waiting = [_Way(value, None, written) for value, written in roots]
    seen: set[tuple[int, bool, int]] = set()
    while waiting and walked.found.complete:
        way = waiting.pop()
        key = (id(way.value), way.cut is None, id(way.written) if is_unknown(way.value) else 0)
        if key not in seen:
            seen.add(key)
            waiting.extend(walked.on_from(way))
    return walked.found


class _Walk:
    """Goes back from losses."""

    def __init__(self, ctx: Context, found: Reach) -> None:
        self._ctx = ctx
        self.found = found

    def on_from(self, way: _Way) -> Iterator[_Way]:
        """Yield what a value was computed from, and note the layer that computed it."""
        match way.value:
            case Tensor(origin=Origin()) | Number(origin=Origin()) | Quantity(origin=Origin()):
                yield from self._computed(way, way.value.origin)
            case Tensor(ways=ways) if ways:
                yield from (way._replace(value=each) for each in ways)
            case Tensor(parameter=True):
                self._note(_holder(way.value), way.cut)
            case Sequence(items=items, element=element):
                given = items if items is not None else (element,)
                yield from (
                    _Way(item, way.cut, text) for item, text in zip(given, _elements(way.written, given), strict=True)
                )
            case Choice(options=options):
                yield from (way._replace(value=option) for option in options)
            case Mapped(entries=entries):
                yield from (_Way(entry, way.cut) for entry in entries.values())
            case Object() | ParameterList():
                yield from self._object(way, way.value)
            case Number(cut=ast.Call() as taken):
                call = self._ctx.call(taken)
                yield from (_Way(v, Cut(taken, "number")) for v in (call.values if call is not None else ()))
            case Number() | Tensor(requires_grad=False):
                pass
            case value if isinstance(value, _GIVEN):
                pass
            case value if is_unknown(value) and way.written is not None:
                yield from self._unknown(way.written, way.cut, _DEPTH)
            case _:
                self.found.complete &= way.cut is not None

    def _computed(self, way: _Way, origin: Origin | None) -> Iterator[_Way]:
        if origin is None or origin.operation == _DATA:
            return
        cut = _nearer(self._cut(way.value, origin), way.cut)
        module = origin.call.module if origin.call is not None else None
        if module is not None:
            self.found.named &= module.node is not None or cut is not None
            self._note(module.node or origin.node, cut)
        if isinstance(way.value, Tensor) and way.value.parameter:
            self._note(origin.node, way.cut)
        elif isinstance(way.value, Tensor) and cut is None and way.value.leaf and way.value.requires_grad is not False:
            self.found.leaf = True
        for operand, written in zip(origin.operands, _expressions(origin), strict=True):
            yield _Way(operand, cut, written)
        if isinstance(origin.node, ast.Subscript):
            yield _Way(self._ctx.value(origin.node.slice), cut, origin.node.slice)

    def _note(self, node: ast.expr | None, cut: Cut | None) -> None:
        if cut is None and node is not None:
            self.found.live.add(node)
        elif cut is None:
            self.found.complete = False
        elif node is not None and (node not in self.found.beyond or self.found.beyond[node].on_purpose):
            self.found.beyond[node] = cut

    def _cut(self, value: Value, origin: Origin) -> Cut | None:
        """Return the end of a graph that an operation is; None where its result may have one."""
        if not isinstance(value, Tensor):
            return Cut(origin.node, "number") if origin.operation in _NUMBERS else None
        if origin.operation in FLAT:
            return Cut(origin.node, "flat")
        if origin.operation in _ALWAYS_COPY:
            return Cut(origin.node, "copy")
        if value.requires_grad is False and value.cut is not None and value.cut is origin.node:
            return Cut(value.cut, "detach" if value.made_by("detach", "data") else "choice")
        if value.requires_grad is False and origin.operands and recorded(self._ctx, origin.node) is False:
            return Cut(origin.node, "mode")
        starts = value.leaf and value.requires_grad and any(map(_has_graph, origin.operands))
        return Cut(origin.node, "leaf") if starts else None

    def _object(self, way: _Way, value: Object | ParameterList) -> Iterator[_Way]:
        """Take a module to be reached as a whole; what another object was made of goes with it."""
        module = value.module if isinstance(value, ParameterList) else value
        if way.cut is not None or not isinstance(module, Object):
            self.found.complete &= way.cut is not None
        elif module.is_module:
            self.found.whole.append(module)
        else:
            given = (*module.arguments.positional, *module.arguments.keywords.values())
            yield from (_Way(argument, None) for argument in given if not is_unknown(argument))

    def _unknown(self, written: ast.expr, cut: Cut | None, depth: int) -> Iterator[_Way]:
        """Follow the text of what nobody knows: all that it reads may be reached through it."""
        value = self._ctx.value(written)
        if not is_unknown(value) and not isinstance(value, (*_GIVEN, Method, Function)):
            yield _Way(value, cut, written)
            return
        match written:
            case ast.Name(ctx=ast.Load()):
                yield from self._named(written, cut, depth)
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in _LEAVES:
                yield from self._unknown(owner, Cut(written, "number"), depth)
            case ast.Attribute(value=ast.Name(id="self")) if cut is None and is_unknown(value):
                self.found.complete = False
            case ast.Lambda():
                self.found.complete &= cut is not None
            case _:
                for part in _parts(written):
                    yield from self._unknown(part, cut, depth)

    def _named(self, name: ast.Name, cut: Cut | None, depth: int) -> Iterator[_Way]:
        value = self._ctx.value(name)
        given = _given(name, self._ctx)
        if isinstance(value, (*_GIVEN, Function)) or (given is not None and cut is None):
            return
        before = given or last_assignment(self._ctx, name.id, self._ctx.statement(name), whole=True)
        if before is None or not depth:
            self.found.complete &= cut is not None
        elif before is not name:
            yield from self._unknown(before, cut, depth - 1)


def _nearer(found: Cut | None, before: Cut | None) -> Cut | None:
    """Return the end of a graph that is told: the one nearest to the layers.

    Operations under one switch are one end; what is detached to be turned into numbers ends where the numbers begin.
    """
    if found is None or before is None:
        return found or before
    is_same_end = found.kind == "detach" or found.kind == before.kind == "mode"
    return before if is_same_end else found


def _has_graph(value: Value) -> bool:
    return isinstance(value, Tensor) and value.requires_grad is True


def _holder(parameter: Tensor) -> ast.expr | None:
    """Return the call that constructed the layer of a parameter."""
    storage = parameter.storage
    place = cast("tuple[object, ...]", storage)[0] if isinstance(storage, tuple) else storage
    return place if isinstance(place, ast.expr) else None


def _elements(written: ast.expr | None, given: tuple[Value, ...]) -> list[ast.expr | None]:
    """Return how the elements of a list are written, as far as that is known."""
    if isinstance(written, (ast.List, ast.Tuple)) and len(written.elts) == len(given):
        return [*written.elts]
    return [None] * len(given)


def _expressions(origin: Origin) -> list[ast.expr | None]:
    """Return how the operands of an operation are written, as far as that is known."""
    match origin:
        case Origin(call=call) if call is not None and len(call.operands) == len(origin.operands):
            return list(call.operands)
        case Origin(node=ast.BinOp(left=left, right=right), operands=(_, _)):
            return [left, right]
        case _:
            return [origin.node if len(origin.operands) == 1 else None] * len(origin.operands)


def _parts(written: ast.expr) -> Iterator[ast.expr]:
    for node in ast.iter_child_nodes(written):
        if isinstance(node, ast.expr):
            yield node
        elif isinstance(node, ast.keyword):
            yield node.value
        elif isinstance(node, ast.comprehension):
            yield node.iter


def _given(name: ast.Name, ctx: Context) -> ast.expr | None:
    """Return what a name is bound to that comes from outside: a parameter, or an element of what a loop goes over."""
    function = ctx.function(name)
    scope: FunctionNode | ast.Module = function if function is not None else ctx.tree
    for node in nodes_within(scope):
        match node:
            case ast.For(target=target, iter=source) | ast.AsyncFor(target=target, iter=source):
                pass
            case ast.comprehension(target=target, iter=source):
                pass
            case _:
                continue
        if name.id in bound_names(target):
            return source
    is_parameter = function is not None and name.id in {a.arg for a in walk(function.args) if isinstance(a, ast.arg)}
    return name if is_parameter else None
