"""Whole files: each function evaluated once, with its parameters where the caller wants them, and followed by that."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from drygrad.static.facts.linked import home_of, is_elsewhere
from drygrad.static.facts.notes import Ground
from drygrad.static.facts.places import flow, given, meeting
from drygrad.static.facts.places.chosen import chosen_device, of_object
from drygrad.static.facts.places.entries import GROUPS
from drygrad.static.facts.places.evaluation import Scope
from drygrad.static.facts.places.inner import Node, kept_within, taken_from
from drygrad.static.facts.places.lattice import (
    ANY,
    FREE,
    MODULE,
    NOWHERE,
    UNKNOWN,
    Alternative,
    Anywhere,
    At,
    Made,
    Parts,
    Place,
    each,
    flat,
    join_all,
    made_in,
    meets,
)
from drygrad.static.facts.places.meeting import Fault, Meet
from drygrad.static.facts.places.objects import OWN, Objects
from drygrad.static.facts.receivers import is_static, self_name
from drygrad.static.facts.values import Class, Function, Tensor, Value
from drygrad.static.tree import remembered, walk

if TYPE_CHECKING:
    from drygrad.static.facts.module import ModuleFacts

_EMPTY_MEETS = 40


@dataclass(frozen=True)
class Summary:
    """What evaluating a function with unknown arguments has found out.

    ``tensors`` are the roots that are tensors for certain; ``faults`` what surely meets in the function, wherever its
    arguments are; ``open`` what meets only where they are of a kind; ``left`` what it returns on the default device,
    wherever its arguments are; ``arrayed`` what it makes NumPy's on a device that is chosen at run time, by its text.
    """

    result: Place
    faults: tuple[Fault, ...]
    open: tuple[Meet, ...]
    stores: Mapping[str, list[tuple[ast.stmt, Place]]]
    tensors: frozenset[str]
    calls: tuple[tuple[ast.AST, Mapping[str, Place | None]], ...] = ()
    left: tuple[Fault, ...] = ()
    arrayed: tuple[tuple[ast.Call, str], ...] = ()


_NOTHING = Summary(UNKNOWN, (), (), {}, frozenset())


class Places:
    """Where the tensors of a file are."""

    def __init__(self, facts: ModuleFacts) -> None:
        self.facts = facts
        self._summaries: dict[ast.AST, Summary] = {}
        self._active: list[ast.AST] = []
        self._handed: dict[ast.AST, list[tuple[ast.AST, Mapping[str, Place | None]]]] = {}
        self._methods_of: dict[ast.AST, dict[ast.AST, None]] = {}
        self.objects = Objects(self)
        self.branch = flow.branch
        self.tests_device = flow.tests_device

    @cached_property
    def functions(self) -> dict[ast.AST, Function]:
        """The functions of the file by their nodes."""
        return {f.node: f for f, _ in self.facts.functions if not isinstance(f.node, ast.Lambda)}

    def faults(self) -> list[tuple[Function, Fault]]:
        """Return where what is on the default device meets something given, in which function."""
        known = [(function, self.summary(node)) for node, function in self.functions.items()]
        return [(function, fault) for function, summary in known for fault in summary.faults]

    def left(self) -> list[tuple[Function, Fault]]:
        """Return what functions that nobody in the file calls return on the default device."""
        known = [(function, self.summary(node)) for node, function in self.functions.items()]
        return [(f, fault) for f, summary in known if not self.is_called(f.node) for fault in summary.left]

    def arrayed(self) -> list[tuple[ast.Call, str]]:
        """Return the calls of ``numpy()`` on what is on a device that is chosen at run time, with that device."""
        return [pair for node in self.functions for pair in self.summary(node).arrayed]

    def summary(self, node: ast.AST) -> Summary:
        """Return what is known of a function."""
        known = self._summaries.get(node)
        if known is not None:
            return known
        function = self.functions.get(node)
        if function is None or node in self._active or not isinstance(node, Node):
            return _NOTHING
        key = (Places, node, self.is_called(node), self.objects.assigned_elsewhere, self.taken_from_around(node))
        made = self.facts.derivations.get(key, self._ground(node), lambda: self._evaluate(function, node))
        self._summaries[node] = made
        for called, bound in made.calls:
            self._handed.setdefault(called, []).append((node, bound))
        return made

    def _ground(self, node: ast.AST) -> Ground | None:
        """Return the evaluations that a summary rests on: of what the function calls, and of its objects' methods."""
        body = self.facts.body_of(node)
        if body is None:
            return None
        nodes: dict[ast.AST, None] = {}
        for each_node in (node, *body.dependencies):
            nodes[each_node] = None
            function = self.functions.get(each_node)
            if function is not None and function.owner is not None:
                nodes |= self._methods(function.owner)
        return tuple(map(self.facts.body_of, nodes))

    def _methods(self, cls: Class) -> dict[ast.AST, None]:
        """Return the methods of a class and of its bases, by their nodes."""
        known = self._methods_of.get(cls.node)
        if known is None:
            members = (member for each_class in cls.lineage() for member in each_class.members.values())
            known = self._methods_of[cls.node] = {m.node: None for m in members if isinstance(m, Function)}
        return known

    def _evaluate(self, function: Function, node: Node) -> Summary:
        self._active.append(node)
        try:
            return self._evaluated(function, node)
        finally:
            self._active.pop()

    def _evaluated(self, function: Function, node: Node) -> Summary:
        owner = function.owner
        receiver = self_name(function) if owner is not None and not is_static(function) else None
        scope = Scope(self, node, owner, receiver)
        _bind_parameters(scope, node)
        scope.names |= {name: frozenset({At(name)}) for name in self.taken_from_around(node)}
        flow.execute(scope, node.body)
        shown = frozenset(scope.shown)

        def shows(a: At) -> bool:
            root = root_of(a)
            return a.root == MODULE or (not {a.root, root} & scope.arrays and (a.tensor or a.root in shown))

        faults: list[Fault] = []
        open_meets: list[Meet] = []
        for meet in scope.meets.values():
            made = min(made_in(meet.left), key=_position, default=None)
            if made is not None and meets(meet.left, meet.right, shows):
                roots = frozenset(root_of(a) for a in flat(meet.right) if isinstance(a, At))
                faults.append(Fault(meet.node, made, meet.operand, meet.other, roots))
            else:
                open_meets.append(meet)
        tells = scope.results and not given.returns_number(node)
        result = join_all(scope.results) if tells else NOWHERE
        found = tuple(faults), tuple(open_meets[:_EMPTY_MEETS])
        left = tuple(_left(scope, shown - scope.arrays) if not scope.arrays else ())
        arrayed = tuple(scope.arrayed.items())
        return Summary(result, *found, scope.stores, shown, tuple(scope.calls.values()), left, arrayed)

    def is_called(self, node: ast.AST) -> bool:
        """Say whether anybody who is known calls a function, if only by way of what transforms it."""
        return self.facts.is_called(node) or node in self._around

    def is_given(self, node: ast.AST, root: str, deepest: int = 4) -> bool:
        """Say whether others than the file decide where a parameter of a function is.

        That is so where the file nowhere calls it, or hands on what a function like this was given, or (where it copies
        nothing to the CPU itself, and other files may call the function) what it got from elsewhere.
        """
        calls = self._handed.get(node, [])
        if root in (MODULE, GROUPS) or root.startswith(("<", OWN)) or deepest == 0:
            return True
        if not calls:
            return node not in self._inner
        handed = [(c, a) for c, bound in calls if c is not node for a in flat(bound.get(root) or NOWHERE)]
        open_to_others = not (self._brings_back or node in self._inner or _is_private(node))
        if open_to_others and any(a == ANY for _, a in handed):
            return True
        return any(isinstance(a, At) and self.is_given(caller, root_of(a), deepest - 1) for caller, a in handed)

    @cached_property
    def _inner(self) -> frozenset[ast.AST]:
        """The functions within functions, which none but these call."""
        return frozenset(inner for function in self.functions for inner in kept_within(function))

    @cached_property
    def _around(self) -> Mapping[ast.AST, frozenset[str]]:
        """The names that each function within functions takes from these."""
        taken: dict[ast.AST, frozenset[str]] = {}
        for function in self.functions:
            for inner, names in taken_from(function):
                taken[inner] = taken.get(inner, frozenset()) | names
        return taken

    def taken_from_around(self, node: ast.AST) -> frozenset[str]:
        """Return what a function within a function reads of that: these are arguments of each call, too."""
        return self._around.get(node, frozenset())

    @cached_property
    def _brings_back(self) -> bool:
        """Whether the file copies tensors to the CPU: what is unknown may be such a copy."""
        return any(True for statement in self.facts.tree.body for _ in _copies_to_cpu(statement))

    # -- calls ---------------------------------------------------------------------------------------------------

    def follow(self, scope: Scope, function: Function, call: ast.Call) -> Place:
        """Return where the result of a call of a function of the file is, noting what meets inside."""
        arguments = [scope.at(a) for a in call.args]
        keywords = {k.arg: scope.at(k.value) for k in call.keywords}
        if isinstance(function.node, ast.Lambda):
            return UNKNOWN
        home = home_of(function)
        summary = self.summary(function.node) if home is None else home.summary(function.node)
        hidden = None in keywords or any(isinstance(a, ast.Starred) for a in call.args)
        bound = _bound(function, arguments, {k: v for k, v in keywords.items() if k is not None}, hidden=hidden)
        if home is None:
            bound |= {name: scope.names.get(name, UNKNOWN) for name in self.taken_from_around(function.node)}
        scope.calls[call] = (function.node, bound)
        own = _is_own(scope, function, call)
        knows = own and self.objects.is_module(function.owner)
        knows = knows or bool(_tensor_parameters(function.node, summary))
        local = _Call(scope, call, bound, own, knows, elsewhere=home is not None)
        for meet in summary.open:
            left, right = local.here(meet.left), local.here(meet.right)
            if meets(left, right, lambda _: True):
                here = replace(meet, left=left, right=right)
                scope.meets[meet.node, meet.other, call] = here if home is None else _at_call(here, call, scope)
        if own:
            self._adopt(scope, summary, local)
        return local.here(summary.result)

    def _adopt(self, scope: Scope, summary: Summary, local: _Call) -> None:
        """A method of the same object may have given attributes other values."""
        for name, stored in summary.stores.items():
            before = scope.of_self(name)
            scope.names[f"{scope.receiver}.{name}"] = join_all([before, *(local.here(place) for _, place in stored)])

    # -- names of the module, attributes of objects -----------------------------------------------------------------

    def of_global(self, value: Value) -> Place:
        """Return where what a name of the module stands for is."""
        if not isinstance(value, Tensor) or value.device != "cpu" or value.shape == () or value.origin is None:
            return UNKNOWN
        call = value.origin.call
        if call is None or call.operation not in meeting.MAKERS or call.node.keywords or value.shape is None:
            return UNKNOWN
        return frozenset({Made(call.node, call.node, len(value.shape))})

    def layers(self, scope: Scope) -> frozenset[str]:
        """Return the names that a body gives to modules of its object, one after the other."""
        return frozenset(_names_of_parts(scope.function)) if scope.receiver is not None else frozenset()


@remembered
def _copies_to_cpu(statement: ast.AST) -> Iterator[bool]:
    for node in walk(statement):
        if isinstance(node, ast.Attribute) and node.attr in ("cpu", "numpy"):
            yield True


@remembered
def _reads_numbers(function: ast.AST) -> Iterator[bool]:
    """Say whether a function goes on with numbers of Python's or NumPy's: these are on the CPU, like what follows."""
    for node in walk(function):
        if isinstance(node, ast.Attribute) and node.attr in ("cpu", "numpy", "tolist", "item"):
            yield True


def _is_private(function: ast.AST) -> bool:
    """Say whether the calls in its file are all that there are of a function."""
    name = getattr(function, "name", "")
    return name.startswith("_") and not name.startswith("__")


def _position(made: Made) -> tuple[int, int]:
    return made.site.lineno, made.site.col_offset


def _left(scope: Scope, tensors: frozenset[str]) -> Iterator[Fault]:
    """Yield what a function returns on the default device though it is given tensors, by the call that makes it."""
    given_here = tensors & {parameter.arg for parameter in _parameters(scope.function)} - {scope.receiver}
    if not given_here or any(_reads_numbers(scope.function)):
        return
    for value, place in scope.returned.items():
        made = min(filter(_is_result, made_in(place)), key=_position, default=None)
        if made is not None and made.without not in given_here:
            yield Fault(value, made, value, value, given_here)


def _is_result(made: Made) -> bool:
    """Say whether a tensor takes part in computations: a CPU index goes with every device, and so do plain data."""
    name = ast.unparse(made.factory.func).rpartition(".")[2]
    return made.device == "cpu" and made.stored is None and name in meeting.COMPUTING


def _parameters(node: Node) -> tuple[ast.arg, ...]:
    return (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)


def root_of(a: At) -> str:
    """Return the parameter that something given belongs to, or the device that is chosen for it."""
    return re.split(r"[.\[]", a.root)[0] if chosen_device(a.root) is None else f"<{chosen_device(a.root)}>"


@remembered
def _names_of_parts(function: ast.AST) -> Iterator[str]:
    for node in walk(function):
        match node:
            case ast.For(target=target, iter=iterable) | ast.comprehension(target=target, iter=iterable):
                if any(isinstance(n, ast.Name) and n.id == "self" for n in walk(iterable)):
                    yield from (n.id for n in walk(target) if isinstance(n, ast.Name))
            case _:
                pass


# -- parameters -----------------------------------------------------------------------------------------------------


def _bind_parameters(scope: Scope, node: Node) -> None:
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: dict[str, ast.expr | None] = {
        p.arg: d for p, d in zip(reversed(positional), reversed(arguments.defaults), strict=False)
    }
    defaults |= {p.arg: d for p, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)}
    for parameter in (*positional, *arguments.kwonlyargs):
        if parameter.arg == scope.receiver:
            continue
        tensor = given.annotated(parameter, defaults.get(parameter.arg))
        if tensor:
            scope.shown.add(parameter.arg)
        rank = given.least_rank(node, parameter.arg)
        scope.names[parameter.arg] = UNKNOWN if tensor is False else frozenset({At(parameter.arg, rank=rank)})
    for extra in (arguments.vararg, arguments.kwarg):
        if extra is not None:
            scope.names[extra.arg] = UNKNOWN


def _tensor_parameters(node: ast.AST, summary: Summary) -> list[str]:
    """Return the parameters of a function that are tensors for certain."""
    arguments = node.args if isinstance(node, Node) else None
    if arguments is None:
        return []
    return [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs) if a.arg in summary.tensors]


def _bound(
    function: Function, arguments: list[Place], keywords: dict[str, Place], *, hidden: bool
) -> dict[str, Place | None]:
    """Return the places of a call's arguments by parameter; None for those that are not given."""
    assert not isinstance(function.node, ast.Lambda)
    parameters = [p.arg for p in (*function.node.args.posonlyargs, *function.node.args.args)]
    if function.owner is not None and not is_static(function) and function.receiver is not None:
        parameters = parameters[1:]
    bound: dict[str, Place | None] = dict(zip(parameters, arguments, strict=False))
    bound |= keywords
    for name in (*parameters, *(p.arg for p in function.node.args.kwonlyargs)):
        bound.setdefault(name, UNKNOWN if hidden else None)
    return bound


def _is_own(scope: Scope, function: Function, call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(value=ast.Name(id=owner) | ast.Call(func=ast.Name(id=owner))):
            return function.owner is not None and owner in (scope.receiver, "super")
        case _:
            return False


def _at_call(meet: Meet, call: ast.Call, scope: Scope) -> Meet:
    """Return a meeting in another file as one at the call, of the arguments that are there."""
    given = [a.value if isinstance(a, ast.Starred) else a for a in (*call.args, *(k.value for k in call.keywords))]
    other = next((a for a in given if flat(scope.at(a)) & flat(meet.right)), call)
    return replace(meet, node=call, operand=call, other=other)


@dataclass(frozen=True)
class _Call:
    """How what a function has found out reads at a call of it."""

    scope: Scope
    node: ast.Call
    bound: Mapping[str, Place | None]
    own: bool
    knows_device: bool
    elsewhere: bool = False

    def here(self, place: Place) -> Place:
        """Return a place of the function in terms of its caller."""
        if isinstance(place, Parts):
            items = None if place.items is None else tuple(map(self.here, place.items))
            return Parts(items, self.here(place.element))
        if len(place) == 1:
            match next(iter(place)):
                case At(root=root) if isinstance(self.bound.get(root), Parts):
                    held = self.bound[root]
                    return held if held is not None else NOWHERE
                case _:
                    pass
        return each(place, self._alternatives)

    def _alternatives(self, a: Alternative) -> tuple[Alternative, ...]:
        match a:
            case Made(without=name):
                return self._made(a, name)
            case At(root=root):
                if root == MODULE:
                    module = self.own or self.scope.places.objects.is_module(self.scope.owner)
                    return (a if module else Anywhere(),)
                return self._given(a)
            case _:
                return (a,)

    def _made(self, a: Made, name: str | None) -> tuple[Alternative, ...]:
        if name is not None and name in self.bound:
            handed = self.bound[name]
            if handed is not None and handed != NOWHERE:
                return ()
        if self.scope.minds_devices or (self.elsewhere and a.stored is not None):
            return (Anywhere(),)
        without = self.scope.without[-1] if self.scope.without else None
        if self.elsewhere and is_elsewhere(a.factory):
            owners = self.scope.owners()
            return (replace(a, factory=self.node, site=self.node, without=without, owners=owners),)
        if self.knows_device or a.stored is not None:
            return (replace(a, without=without),)
        return (replace(a, site=self.node, without=without, owners=self.scope.owners()),)

    def _given(self, a: At) -> tuple[Alternative, ...]:
        base = root_of(a)
        if self.own and (of_object(a.root, self.scope.receiver) or a.root.startswith(OWN)):
            return (a,)
        rest = a.root[len(base) :]
        handed = self.bound.get(base)
        if base not in self.bound:
            return (Anywhere(a.moved),)
        if handed is None:
            return (FREE,) if not a.tensor else ()
        alternatives = flat(handed)
        if rest:
            roots = {x.root for x in alternatives if isinstance(x, At)}
            known = len(roots) == len(alternatives) and MODULE not in roots
            return tuple(At(f"{root}{rest}", a.tensor, a.moved) for root in roots) if known else (Anywhere(),)
        return tuple(
            replace(x, tensor=x.tensor or a.tensor, moved=x.moved or a.moved) if isinstance(x, At) else x
            for x in alternatives
        )
