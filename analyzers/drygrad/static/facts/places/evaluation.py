"""Expressions: where the tensor that each is would be."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from drygrad.static.facts.operations import MODULE_OPERATIONS, PARAMETERLESS
from drygrad.static.facts.places import calling, entries, given, ranks
from drygrad.static.facts.places.chosen import chosen_device
from drygrad.static.facts.places.lattice import (
    FREE,
    MODULE,
    NOWHERE,
    UNKNOWN,
    Alternative,
    At,
    Made,
    Parts,
    Place,
    below,
    each,
    element_of,
    flat,
    join,
    join_all,
    made_in,
    result,
    with_rank,
)
from drygrad.static.facts.places.meeting import Meet
from drygrad.static.facts.values import UNKNOWN as NO_VALUE
from drygrad.static.facts.values import Class, Method, Number, Object, Tensor, Value

if TYPE_CHECKING:
    from drygrad.static.facts.places.following import Places

_MOST_MEETS = 60
"""Operations on two things given that are kept of one function, for callers that give it what they have made."""


@dataclass
class Scope:
    """The evaluation of one body: what its names stand for, and what it has shown so far."""

    places: Places
    function: ast.FunctionDef | ast.AsyncFunctionDef
    owner: Class | None
    receiver: str | None
    names: dict[str, Place] = field(default_factory=dict[str, Place])
    shown: set[str] = field(default_factory=set[str])
    arrays: set[str] = field(default_factory=set[str])
    arrayed: dict[ast.Call, str] = field(default_factory=dict[ast.Call, str])
    meets: dict[tuple[ast.expr, ast.expr, ast.expr], Meet] = field(
        default_factory=dict[tuple[ast.expr, ast.expr, ast.expr], Meet]
    )
    stores: dict[str, list[tuple[ast.stmt, Place]]] = field(default_factory=dict[str, list[tuple[ast.stmt, Place]]])
    results: list[Place] = field(default_factory=list[Place])
    returned: dict[ast.expr, Place] = field(default_factory=dict[ast.expr, Place])
    calls: dict[ast.Call, tuple[ast.AST, Mapping[str, Place | None]]] = field(
        default_factory=dict[ast.Call, tuple[ast.AST, Mapping[str, "Place | None"]]]
    )
    without: tuple[str, ...] = ()
    minds_devices: int = 0
    leaves: list[dict[str, Place]] = field(default_factory=list[dict[str, Place]])

    # -- what is known -------------------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Value:
        """Return what the interpretation knows of an expression."""
        return self.places.facts.recording.values.get(node, NO_VALUE)

    def at(self, node: ast.expr) -> Place:
        """Return where an expression is."""
        place = self._at(node)
        known = self.value(node)
        if isinstance(known, Tensor) and known.shape is not None and not isinstance(place, Parts):
            rank = len(known.shape)
            return with_rank(place, lambda _: rank)
        return NOWHERE if isinstance(known, Number) else place

    def _at(self, node: ast.expr) -> Place:
        match node:
            case ast.Name(id=name):
                self.forget_entries(name)
                return self._name(name, node)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Call():
                return calling.called(self, node)
            case ast.BinOp(left=left, right=right):
                return self._operator(node, left, right, matmul=isinstance(node.op, ast.MatMult))
            case ast.UnaryOp(op=op, operand=operand):
                place = self.at(operand)
                return NOWHERE if isinstance(op, ast.Not) else place
            case ast.Compare():
                return self._compare(node)
            case ast.BoolOp(values=values):
                return join_all([self.at(value) for value in values])
            case ast.IfExp():
                return self._choice(node)
            case ast.Subscript():
                return self._item(node)
            case ast.Constant() | ast.JoinedStr():
                return NOWHERE
            case _:
                return self._container(node)

    def _container(self, node: ast.expr) -> Place:
        match node:
            case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
                items = tuple(self.at(element) for element in elements)
                starred = any(isinstance(element, ast.Starred) for element in elements)
                return Parts(None, join_all(items) if items else UNKNOWN) if starred else Parts(items)
            case ast.Starred(value=value):
                return element_of(self.at(value))
            case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element) | ast.SetComp(elt=element):
                return Parts(None, self._comprehended(node.generators, element))
            case ast.DictComp(key=key, value=value):
                self._comprehended(node.generators, key, value)
                return UNKNOWN
            case ast.Dict(values=values):
                for value in values:
                    self.at(value)
                return UNKNOWN
            case ast.NamedExpr(target=target, value=value):
                place = self.at(value)
                self.bind(target, place)
                return place
            case ast.Await(value=value) | ast.YieldFrom(value=value):
                self.at(value)
                return UNKNOWN
            case ast.Yield(value=value):
                if value is not None:
                    self.at(value)
                self.results.append(UNKNOWN)
                return UNKNOWN
            case ast.Slice(lower=lower, upper=upper, step=step):
                for part in (lower, upper, step):
                    if part is not None:
                        self.at(part)
                return NOWHERE
            case _:
                return UNKNOWN

    def _comprehended(self, generators: Sequence[ast.comprehension], *elements: ast.expr) -> Place:
        outer, self.names = self.names, dict(self.names)
        for generator in generators:
            self.bind(generator.target, self.iterated(self.at(generator.iter)))
            for condition in generator.ifs:
                self.at(condition)
        places = [self.at(element) for element in elements]
        self.names = outer
        return places[-1]

    def iterated(self, place: Place) -> Place:
        """Return where each item of an iteration is."""
        if isinstance(place, Parts) and place.items is None:
            return place.element
        batches = any(isinstance(a, At) and given.gives_batches(a.root) for a in flat(place))
        return UNKNOWN if batches else _without_dimension(place)

    # -- names ---------------------------------------------------------------------------------------------------

    def _base(self, node: ast.expr) -> Place:
        """Return where something is of which an item is looked for: that leaves its other items as they are."""
        return self._name(node.id, node) if isinstance(node, ast.Name) else self.at(node)

    def _name(self, name: str, node: ast.Name) -> Place:
        known = self.names.get(name)
        if known is not None:
            return known
        return self.places.of_global(self.value(node))

    def _attribute(self, node: ast.Attribute) -> Place:
        match node.value:
            case ast.Name(id=name) if name == self.receiver:
                return self.of_self(node.attr)
            case _:
                pass
        if node.attr in ("weight", "bias") and (place := self._of_layer(node)) is not None:
            return place
        base = self.at(node.value)
        return self.attribute(base, node.attr, called=False)

    def _of_layer(self, node: ast.Attribute) -> Place | None:
        """Return where the weight of a layer of the object's own is: that of an unknown one may be a number."""
        layer = node.value
        match layer:
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner == self.receiver:
                pass
            case _:
                return None
        if f"{owner}.{name}" in self.names or not self.places.objects.is_module(self.owner):
            return None
        known = self.value(layer)
        if isinstance(known, Object):
            has = known.type.rpartition(".")[2] in MODULE_OPERATIONS.keys() - PARAMETERLESS
            return frozenset({At(MODULE, tensor=True)}) if has and known.is_module else None
        unknown = known == NO_VALUE or isinstance(known, Method)
        return frozenset({At(f"{MODULE}.{name}.{node.attr}")}) if unknown else None

    def attribute(self, base: Place, name: str, *, called: bool) -> Place:
        """Return where an attribute of a value is, noting what having it tells of the value."""
        if given.shows(name, called=called):
            self.show(base)
        if name in given.ABOUT:
            return NOWHERE
        if name in given.SAME and not called:
            return base if not isinstance(base, Parts) else element_of(base)
        if name == "device":
            return each(base, lambda a: (replace(a, tensor=True, moved=True),) if isinstance(a, At) else (a,))
        return below(base, f".{name}")

    def of_self(self, name: str) -> Place:
        """Return where an attribute of the object of a method is."""
        known = self.names.get(f"{self.receiver}.{name}")
        if known is not None:
            return known
        if name in entries.OPTIMIZED and entries.is_optimizer(self.owner):
            return entries.of_optimizer(name)
        return self.places.objects.of_attribute(self.owner, name, self.function) if self.owner is not None else UNKNOWN

    def bind(self, target: ast.expr, place: Place) -> None:
        """Assign a place to a target."""
        match target:
            case ast.Name(id=name):
                self._forget_parts(name)
                self.names[name] = place
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                self._unpack(targets, place)
            case ast.Starred(value=inner):
                self.bind(inner, Parts(None, element_of(place)))
            case ast.Attribute(value=ast.Name(id=owner), attr=attribute):
                self.names[f"{owner}.{attribute}"] = place
            case ast.Subscript(value=ast.Name(id=name)):
                held = self.names.get(name)
                if isinstance(held, Parts):
                    self.names[name] = Parts(None, join(element_of(held), place))
                else:
                    self._put(target, place)
            case ast.Subscript():
                self._item(target)
            case _:
                pass

    def _put(self, target: ast.Subscript, place: Place) -> None:
        """Assign to an item of what may be a dictionary."""
        entry = entries.entry(target)
        before = self.names.get(entry) if entry is not None and entries.is_one_of_many(target) else None
        if entry is None:
            self._item(target)
        else:
            self.names[entry] = place if before is None else join(before, place)

    def written(self, target: ast.Subscript, value: ast.expr, place: Place) -> None:
        """Note what meets in ``x[index] = value``: where the index is a tensor, the value is not copied to ``x``."""
        index = target.slice
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        base = self._base(target.value)
        if not isinstance(base, Parts) and any(_is_surely_tensor(self.at(part)) for part in parts):
            self._meet(target, (value, place), (target.value, base))
            self._meet(target, (target.value, base), (value, place))

    def _forget_parts(self, name: str) -> None:
        for known in [known for known in self.names if known.startswith((f"{name}.", f"{name}["))]:
            del self.names[known]

    def forget_entries(self, name: str) -> None:
        """Forget what a dictionary holds: it is handed on, to what may replace it."""
        for known in [known for known in self.names if known.startswith(f"{name}[")]:
            del self.names[known]

    def _unpack(self, targets: Sequence[ast.expr], place: Place) -> None:
        items = place.items if isinstance(place, Parts) else None
        if items is not None and len(items) == len(targets):
            for target, item in zip(targets, items, strict=True):
                self.bind(target, item)
            return
        part = each(self.iterated(place), _taken_apart)
        for target in targets:
            self.bind(target, part)

    def distrust(self, place: Place) -> None:
        """Note that something given is no tensor, or is moved here: where it is before tells nothing."""
        self.arrays |= {a.root for a in flat(place) if isinstance(a, At) and chosen_device(a.root) is None}

    def show(self, place: Place) -> None:
        """Note that a value is a tensor."""
        self.shown |= {a.root for a in flat(place) if isinstance(a, At)}

    def owners(self) -> tuple[str, ...]:
        """Return the names that hold, at this point, something given: parameters first."""
        known = [
            name
            for name, place in self.names.items()
            if not isinstance(place, Parts) and all(isinstance(a, At) and not a.moved for a in place)
        ]
        untouched = [name for name in known if self.names[name] == frozenset[Alternative]({At(name)})]
        return (*untouched, *(name for name in known if name not in untouched))

    # -- operations ----------------------------------------------------------------------------------------------

    def operation(self, node: ast.expr, operands: Sequence[tuple[ast.expr, Place]]) -> Place:
        """Return the result of an operation that needs its operands on one device, noting where they meet."""
        parts = [part for expression, place in operands for part in _parts(expression, place)]
        bound = [(e, p) for e, p in parts if any(a != FREE for a in flat(p))]
        for index, (expression, place) in enumerate(bound):
            for other, beside in bound[:index]:
                self._meet(node, (expression, place), (other, beside))
                self._meet(node, (other, beside), (expression, place))
        return result(self._as_shown(place) for _, place in bound)

    def _as_shown(self, place: Place) -> Place:
        """Return a place whose roots count as tensors where the body has shown them to be."""
        return each(place, lambda a: (replace(a, tensor=True),) if isinstance(a, At) and a.root in self.shown else (a,))

    def _meet(self, node: ast.expr, mine: tuple[ast.expr, Place], beside: tuple[ast.expr, Place]) -> None:
        (operand, left), (other, right) = mine, beside
        if not any(isinstance(a, At) for a in flat(right)):
            return
        passed = self.places.is_called(self.function) and any(isinstance(a, At) for a in flat(left))
        if any(made_in(left)) or (passed and len(self.meets) < _MOST_MEETS):
            self.meets[node, other, node] = Meet(node, left, right, operand, other)

    def _operator(self, node: ast.expr, left: ast.expr, right: ast.expr, *, matmul: bool = False) -> Place:
        places = [(left, self.at(left)), (right, self.at(right))]
        if any(isinstance(place, Parts) for _, place in places):
            first, second = places[0][1], places[1][1]
            return join(first, second) if isinstance(first, Parts) and isinstance(second, Parts) else first
        made = self.operation(node, places)
        return with_rank(made, lambda rank: rank - 1) if matmul else made

    def _compare(self, node: ast.Compare) -> Place:
        asks = any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops)
        evaluated = self._base if asks else self.at
        places = [(operand, evaluated(operand)) for operand in (node.left, *node.comparators)]
        if asks:
            return NOWHERE
        if any(isinstance(place, Parts) for _, place in places):
            return NOWHERE
        return self.comparison(node, places)

    def comparison(self, node: ast.expr, places: Sequence[tuple[ast.expr, Place]]) -> Place:
        """Return the result of ``<`` and its like."""
        if len(places) == 2 and any(_is_counted(*pair) for pair in (places, [*places][::-1])):
            return result(place for _, place in places if any(made_in(place)))
        return self.operation(node, places)

    def _choice(self, node: ast.IfExp) -> Place:
        self.at(node.test)
        with self.places.branch(self, node.test, holds=True):
            body = self.at(node.body)
        with self.places.branch(self, node.test, holds=False):
            other = self.at(node.orelse)
        return UNKNOWN if self.places.tests_device(node.test) and body != other else join(body, other)

    def _item(self, node: ast.Subscript) -> Place:
        entry = entries.entry(node)
        held = self.names.get(entry) if entry is not None else None
        if held is not None:
            return held
        base, index = self._base(node.value), node.slice
        if (params := entries.of_group(self, base, index)) is not None:
            return params
        if entries.of_state(base) and (key := entries.key_of(index)) is not None and self.owner is not None:
            return self.places.objects.of_attribute(self.owner, f"{entries.STATE}[{key}]", self.function)
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        places = [self.at(part) for part in parts]
        if isinstance(base, Parts):
            return _item_of(base, index)
        match index:
            case ast.Constant(value=str(key)):
                return below(base, f'["{key}"]')
            case _:
                pass
        indices = [(part, place) for part, place in zip(parts, places, strict=True) if not isinstance(part, ast.Slice)]
        for part, place in indices:  # a CPU tensor takes no indices from elsewhere; the other way round they are copied
            on_cpu = any(made.device == "cpu" for made in made_in(base))
            if on_cpu and all(a.rank > 0 for a in flat(place) if isinstance(a, At)):
                self._meet(node, (node.value, base), (part, place))
            if any(made.device == "cuda" for made in made_in(place)):
                self._meet(node, (part, place), (node.value, base))
        tensors = [
            any(isinstance(a, (At, Made)) for a in flat(place)) or isinstance(self.value(part), Tensor)
            for part, place in zip(parts, places, strict=True)
        ]
        return with_rank(base, lambda rank: ranks.of_index(index, rank, tensors))


def _parts(node: ast.expr, place: Place) -> list[tuple[ast.expr, Place]]:
    """Return the operands that an argument is: those in a list that is written out, one by one."""
    items = place.items if isinstance(place, Parts) else None
    if not isinstance(node, (ast.List, ast.Tuple)) or items is None or len(items) != len(node.elts):
        return [(node, place)]
    return [part for pair in zip(node.elts, items, strict=True) for part in _parts(*pair)]


def _item_of(container: Parts, index: ast.expr) -> Place:
    match index:
        case ast.Constant(value=int(number)) if container.items is not None:
            inside = -len(container.items) <= number < len(container.items)
            return container.items[number] if inside else UNKNOWN
        case ast.Slice():
            return Parts(None, element_of(container))
        case _:
            return element_of(container)


def _is_surely_tensor(place: Place) -> bool:
    """Say whether an index is a tensor with dimensions."""
    inner = () if isinstance(place, Parts) else place
    return bool(inner) and all(isinstance(a, (At, Made)) and a.rank > 0 and _shown(a) for a in inner)


def _shown(a: At | Made) -> bool:
    return isinstance(a, Made) or a.tensor


def _taken_apart(a: Alternative) -> tuple[Alternative, ...]:
    """Of something given that is unpacked (``row, col = edges``), each part is a tensor with dimensions itself."""
    return (replace(a, rank=max(1, a.rank)) if isinstance(a, At) else a,)


def _without_dimension(place: Place) -> Place:
    inner = element_of(place)
    return with_rank(inner, lambda rank: rank - 1) if inner is place else inner


def _is_counted(counted: tuple[ast.expr, Place], counts: tuple[ast.expr, Place]) -> bool:
    """``arange(n)[None] < counts[:, None]`` makes a mask of lengths, which may well be kept on the CPU."""
    node = counts[0].value if isinstance(counts[0], ast.Subscript) else counts[0]
    made = next(made_in(counted[1]), None)
    if made is None:
        return False
    if any(isinstance(a, At) and given.may_stay(a.root) for a in flat(counts[1])):
        return True
    function = made.factory.func
    return isinstance(function, ast.Attribute) and function.attr == "arange" and isinstance(node, ast.Name)
