"""Calls: where what they return is."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from drygrad.static.facts.linked import home_of
from drygrad.static.facts.operations import MODULE_OPERATIONS, PARAMETERLESS, VIEWS
from drygrad.static.facts.places import derivatives, given, meeting, models, ranks
from drygrad.static.facts.places.chosen import chosen, name_of, only_chosen
from drygrad.static.facts.places.lattice import (
    FREE,
    MODULE,
    MOVED,
    NOWHERE,
    UNKNOWN,
    At,
    Made,
    Parts,
    Place,
    as_tensor,
    each,
    element_of,
    flat,
    join_all,
    reduced,
    result,
    with_rank,
)
from drygrad.static.facts.places.transforms import Transformed, transformed
from drygrad.static.facts.values import (
    Class,
    Constant,
    Device,
    Dtype,
    Function,
    Method,
    Object,
    Reference,
    Tensor,
    TorchCall,
)

if TYPE_CHECKING:
    from drygrad.static.facts.places.evaluation import Scope

_NUMBERS = frozenset(
    "len int float bool str range isinstance hasattr print type id repr ord hash issubclass callable format".split()
)
_COPIES = frozenset({"list", "tuple", "sorted", "reversed", "iter", "set"})
_COMPARES = frozenset({"lt", "le", "gt", "ge"})
_NO_OPERATIONS = frozenset({"manual_seed", "is_grad_enabled", "no_grad", "enable_grad", "set_grad_enabled", "Size"})


def called(scope: Scope, node: ast.Call) -> Place:
    """Return where what a call returns is."""
    value = scope.value(node.func)
    match value:
        case Reference(name=name) if name.startswith("builtins."):
            return _of_python(scope, name.removeprefix("builtins."), node)
        case Reference(name=name) if name.startswith(("numpy.", "math.")):
            return _of_numpy(scope, node, numbers=name.startswith("math."))
        case Dtype():  # what ``torch.LongTensor`` is to the interpretation
            return _typed(scope, node)
        case Reference(name=name) if isinstance(linked := scope.places.facts.linked(name), Function):
            return scope.places.follow(scope, linked, node)
        case Function():
            return scope.places.follow(scope, value, node)
        case Object(cls=Class() as cls):
            forward = cls.member("forward" if value.is_module else "__call__")
            if isinstance(forward, Function):
                return _of_object(scope, replace(forward, receiver=value), node)
        case Method(receiver=Object(cls=Class() as cls) as receiver, name=name) if receiver.node is None:
            inherited = scope.places.objects.inherited(cls, name)
            if inherited is not None:
                return _of_object(scope, replace(inherited, receiver=receiver), node)
        case _:
            pass
    through = transformed(scope, node.func)
    if through is not None:
        return _of_transform(scope, through, node)
    call = scope.places.facts.recording.calls.get(node)
    if call is not None and call.form == "module":
        return _of_module(scope, call, node)
    if isinstance(value, Object) and value.is_module and call is None:
        return models.of_model(scope, node, _arguments(scope, node))
    if isinstance(value, Reference):
        return _of_reference(scope, node, value.name, call)
    if isinstance(node.func, ast.Attribute):
        return _method(scope, node, node.func, call)
    places = _arguments(scope, node)
    return _of_unknown_module(scope, node, node.func, places)


def _of_object(scope: Scope, forward: Function, node: ast.Call) -> Place:
    """What an object gives that is called: what its class in another file leaves open is as of any module."""
    place = scope.places.follow(scope, forward, node)
    if place != UNKNOWN or home_of(forward) is None:
        return place
    return _of_unknown_module(scope, node, node.func, _arguments(scope, node))


def _of_transform(scope: Scope, through: Transformed, node: ast.Call) -> Place:
    """A function that is called by way of ``vmap`` and its like; derivatives are where the arguments are."""
    made = scope.places.follow(scope, through.function, node) if through.function is not None else UNKNOWN
    places = _arguments(scope, node)
    return as_tensor(result(place for _, place in places[:1])) if through.derivative and places else made


def _arguments(scope: Scope, node: ast.Call) -> list[tuple[ast.expr, Place]]:
    return [(a, scope.at(a)) for a in (*node.args, *(k.value for k in node.keywords))]


# -- Python and numpy ---------------------------------------------------------------------------------------------


def _of_python(scope: Scope, name: str, node: ast.Call) -> Place:
    if name in ("len", "isinstance"):
        return NOWHERE
    places = [place for _, place in _arguments(scope, node)]
    if name in _NUMBERS:
        return Parts(None, NOWHERE) if name == "range" else NOWHERE
    if name in _COPIES and len(places) == 1:
        return Parts(None, scope.iterated(places[0])) if not isinstance(places[0], Parts) else places[0]
    if name == "enumerate" and places:
        return Parts(None, Parts((NOWHERE, scope.iterated(places[0]))))
    if name == "zip":
        return Parts(None, Parts(tuple(scope.iterated(place) for place in places)))
    if name in ("sum", "max", "min", "abs", "round") and places:
        return with_rank(result(map(element_of, places)), lambda rank: rank - (name != "abs"))
    return UNKNOWN


def _of_numpy(scope: Scope, node: ast.Call, *, numbers: bool) -> Place:
    for _, place in _arguments(scope, node):
        scope.distrust(place)
    return NOWHERE if numbers else UNKNOWN


# -- torch ----------------------------------------------------------------------------------------------------------


def _of_reference(scope: Scope, node: ast.Call, name: str, call: TorchCall | None) -> Place:
    if name == "torch.autograd.Variable" and node.args:
        return scope.at(node.args[0])
    if name in derivatives.NAMES:
        return derivatives.of_autograd(scope, name, node)
    if meeting.TYPED.match(name):
        return _typed(scope, node)
    if call is None or not meeting.is_torch(call) or name.rpartition(".")[2][:1].isupper():
        _arguments(scope, node)
        return UNKNOWN
    if call.operation in _NO_OPERATIONS:
        return UNKNOWN
    if call.operation in meeting.MAKERS:
        return _factory(scope, call, node)
    if call.operation in meeting.FOLLOWERS:
        return _follower(scope, call, node)
    if call.operation in meeting.LIKE_INPUT and _is_of_numbers(scope, node):
        return _factory(scope, call, node)
    return _operation(scope, call, node)


def _is_of_numbers(scope: Scope, node: ast.Call) -> bool:
    return all(alternative == FREE for _, place in _arguments(scope, node) for alternative in flat(place))


def _typed(scope: Scope, node: ast.Call) -> Place:
    """``torch.Tensor([...])`` and ``torch.LongTensor(n)`` know no device but the CPU."""
    places = [place for _, place in _arguments(scope, node)]
    if not node.args or node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
        return UNKNOWN
    for place in places:
        scope.distrust(place)
    return _made(scope, node, ranks.of_factory("Tensor", node))


def _made(scope: Scope, node: ast.Call, rank: int, device: str = "cpu") -> Place:
    if scope.minds_devices:
        return UNKNOWN
    without = scope.without[-1] if scope.without else None
    return frozenset({Made(node, node, rank, without, owners=scope.owners(), device=device)})


def _factory(scope: Scope, call: TorchCall, node: ast.Call) -> Place:
    places = dict(_arguments(scope, node))
    keywords = {k.arg: k.value for k in node.keywords}
    if None in keywords or "out" in keywords:
        return UNKNOWN
    device = keywords.get("device")
    if _is_cuda(device):
        return _made(scope, node, ranks.of_factory(call.operation, node), "cuda")
    if device is not None and not (isinstance(device, ast.Constant) and device.value is None):
        return _where(scope, device)
    if keywords.keys() & {"pin_memory", "generator"}:
        return UNKNOWN
    if call.operation in ("tensor", "as_tensor", "from_numpy"):
        data = node.args[0] if node.args else keywords.get("data")
        return _of_data(scope, call, node, data, places)
    for size in (a for a in node.args if call.operation != "full" and isinstance(a, ast.Name)):
        scope.distrust(places[size])  # a number
    return _made(scope, node, ranks.of_factory(call.operation, node))


def _is_cuda(device: ast.expr | None = None) -> bool:
    """Say whether a device is written out as the current GPU."""
    return isinstance(device, ast.Constant) and device.value == "cuda"


def _of_data(
    scope: Scope, call: TorchCall, node: ast.Call, data: ast.expr | None, places: dict[ast.expr, Place]
) -> Place:
    if data is None:
        return UNKNOWN
    place = places[data]
    scope.distrust(place)
    known = scope.value(node)
    if isinstance(known, Tensor) and known.shape == ():
        return NOWHERE
    if call.operation != "from_numpy" and not _is_data(scope, data):
        number = not isinstance(place, Parts) and all(a == FREE for a in place)
        return NOWHERE if number else UNKNOWN
    return _made(scope, node, ranks.of_factory(call.operation, node))


def _is_data(scope: Scope, node: ast.expr) -> bool:
    """Say whether an expression is a list or an array, which torch copies to the CPU."""
    match node:
        case ast.List() | ast.Tuple() | ast.ListComp():
            return True
        case ast.Call(func=function):
            value = scope.value(function)
            name = value.name if isinstance(value, Reference) else ""
            return name in ("builtins.range", "builtins.list") or (
                name.startswith("numpy.") and name.rpartition(".")[2] in _ARRAYS
            )
        case ast.BinOp(left=left, op=ast.Mult() | ast.Add(), right=right):
            return isinstance(left, ast.List) or isinstance(right, ast.List)
        case ast.Name(id=name):
            place = scope.names.get(name)
            return isinstance(place, Parts) and place.items is None
        case _:
            return False


_ARRAYS = frozenset("array asarray arange linspace stack concatenate zeros ones eye meshgrid".split())


def _where(scope: Scope, device: ast.expr) -> Place:
    """Return where a ``device=`` puts a tensor."""
    if isinstance(device, ast.Attribute) and device.attr == "device":
        base = device.value
        own = isinstance(base, ast.Name) and base.id == scope.receiver
        place = UNKNOWN if own else scope.at(base)
        moved = each(place, lambda a: (replace(a, tensor=True, moved=True),) if isinstance(a, At) else (a,))
        if not isinstance(moved, Parts) and all(isinstance(a, (At, Made)) for a in moved):
            return moved
        return chosen(scope, device)
    if isinstance(device, ast.Name) and device.id in scope.names:
        place = scope.names[device.id]
        if not isinstance(place, Parts) and all(isinstance(a, At) and a.tensor and a.moved for a in place):
            return place
    return chosen(scope, device)


def _follower(scope: Scope, call: TorchCall, node: ast.Call) -> Place:
    places = _arguments(scope, node)
    keywords = {k.arg: k.value for k in node.keywords}
    device = keywords.get("device")
    if device is not None:
        return _where(scope, device)
    if call.form == "method" and isinstance(node.func, ast.Attribute):
        base = scope.at(node.func.value)
        scope.show(base)
        return as_tensor(with_rank(base, lambda rank: max(1, rank)))
    if not places:
        return UNKNOWN
    scope.show(places[0][1])
    return as_tensor(places[0][1])


def _operation(scope: Scope, call: TorchCall, node: ast.Call) -> Place:
    """An operation on tensors as a function of torch's."""
    places = _arguments(scope, node)
    keywords = {k.arg for k in node.keywords}
    if "out" in keywords or any(k.arg is None for k in node.keywords):
        return UNKNOWN
    if places:
        scope.show(places[0][1])
    return _computed(scope, call.operation, node, places, node.args[1:])


def _computed(
    scope: Scope, operation: str, node: ast.Call, places: list[tuple[ast.expr, Place]], rest: list[ast.expr]
) -> Place:
    if operation in meeting.APART:
        made = element_of(places[0][1]) if places else UNKNOWN
    else:
        made = (scope.comparison if operation in _COMPARES else scope.operation)(node, places)
    return as_tensor(reduced(made, lambda rank: ranks.of_result(operation, node, rest, rank)))


def _of_module(scope: Scope, call: TorchCall, node: ast.Call) -> Place:
    """A layer of torch's: its parameters are operands, where it has any."""
    places = _arguments(scope, node)
    if places:
        scope.show(places[0][1])
    module = scope.value(node.func)
    name = module.type.rpartition(".")[2] if isinstance(module, Object) else ""
    if name in MODULE_OPERATIONS and name not in PARAMETERLESS and _is_own(scope, node.func):
        places = [(node.func, frozenset({At(MODULE, tensor=True)})), *places]
    if call.operation in ("ctc_loss",):
        return UNKNOWN
    made = as_tensor(scope.operation(node, places))
    made = with_rank(made, lambda rank: ranks.of_result(call.operation, node, [], rank))
    if call.operation in ("lstm", "gru", "rnn", "multi_head_attention", "lstm_cell"):
        return Parts(None, made)
    return made


def _is_own(scope: Scope, node: ast.expr) -> bool:
    """Say whether a layer is an attribute of the object of the method: it is where the module is."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    if not isinstance(node, ast.Name):
        return False
    return scope.places.objects.is_module(scope.owner) and (
        node.id == scope.receiver or node.id in scope.places.layers(scope)
    )


def _of_unknown_module(scope: Scope, node: ast.Call, function: ast.expr, places: list[tuple[ast.expr, Place]]) -> Place:
    """What a module calls of its own gives, as a rule, tensors where its input is."""
    if models.is_model(function):
        return models.of_model(scope, node, places)
    if not places or not _is_own(scope, function) or isinstance(places[0][1], Parts):
        return UNKNOWN
    first = places[0][1]
    if all(isinstance(a, At) for a in first):
        scope.show(first)
        return first
    return UNKNOWN


# -- methods --------------------------------------------------------------------------------------------------------


def _method(scope: Scope, node: ast.Call, function: ast.Attribute, call: TorchCall | None) -> Place:
    name = function.attr
    receiver = function.value
    if isinstance(receiver, ast.Name) and receiver.id == scope.receiver:
        places = _arguments(scope, node)
        return _of_unknown_module(scope, node, function, places)
    if call is None and models.is_model(function):
        return models.of_model(scope, node, _arguments(scope, node))
    base = scope.at(receiver)
    plain = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    if name in ("to", "cuda", "cpu", "type", "type_as", "pin_memory"):
        return _moved(scope, node, name, base)
    if name == "numpy":
        if only_chosen(base) and not (node.args or node.keywords or scope.minds_devices):
            scope.arrayed[node] = next(text for a in flat(base) if (text := name_of(a)) is not None)
        if not _is_copied_first(receiver):
            scope.distrust(base)
        return UNKNOWN
    if name in ("items", "values") and not node.args and not isinstance(base, Parts) and _may_hold(base):
        return _held_by(scope, name, base)
    scope.attribute(base, name, called=True)
    if name in given.ABOUT:
        _arguments(scope, node)
        return Parts(None, NOWHERE) if name in ("size", "stride") and not node.args else NOWHERE
    if name in meeting.FOLLOWERS and call is not None:
        return _follower(scope, call, node)
    places = _arguments(scope, node)
    if isinstance(base, Parts):
        return _of_container(scope, receiver, name, base, places)
    tensors = all(isinstance(a, Made) or (isinstance(a, At) and a.tensor) for a in base)
    if not tensors and not given.is_method(name):
        is_own = _is_own(scope, function)
        return _of_unknown_module(scope, node, function, places) if is_own else UNKNOWN
    if name == "backward":
        scope.operation(node, [(receiver, base), *places[:1]])
    if name in ("copy_", "set_", "register_hook", "backward"):
        return base
    operation = call.operation if call is not None else plain
    operands = [] if operation in _SIZED else places
    made = _computed(scope, operation, node, [(receiver, base), *operands], node.args)
    if name != plain and isinstance(receiver, ast.Name) and receiver.id in scope.names:
        scope.names[receiver.id] = base
    return made


def _may_hold(base: Place) -> bool:
    """Say whether something given may be a dictionary: nothing is known of it but whose it is."""
    return all(isinstance(a, At) and not a.tensor and a.root != MODULE for a in flat(base))


def _held_by(scope: Scope, name: str, base: Place) -> Place:
    """Return what ``items()`` or ``values()`` of something given yields: tensors, where it is annotated so."""
    roots = [a.root for a in flat(base) if isinstance(a, At)]
    held = frozenset(At(f"{root}[]", tensor=root in scope.shown) for root in roots)
    return Parts(None, Parts((NOWHERE, held)) if name == "items" else held)


_SIZED = VIEWS | frozenset({"repeat", "tile"})
"""What is given beside the tensor are sizes and axes; those that follow a second tensor take it from any device."""


def _is_copied_first(receiver: ast.expr) -> bool:
    """Say whether ``.numpy()`` is called on what ``.cpu()`` gave: the tensor itself may then be elsewhere."""
    return any(isinstance(n, ast.Attribute) and n.attr in ("cpu", "to") for n in ast.walk(receiver))


def _of_container(
    scope: Scope, receiver: ast.expr, name: str, base: Parts, places: list[tuple[ast.expr, Place]]
) -> Place:
    if name in ("append", "extend", "insert", "add") and places and isinstance(receiver, ast.Name):
        added = element_of(places[-1][1]) if name == "extend" else places[-1][1]
        empty = base.items == () or (base.items is None and base.element == UNKNOWN)
        scope.names[receiver.id] = Parts(None, added if empty else join_all([element_of(base), added]))
        return NOWHERE
    if name in ("pop", "__getitem__", "copy"):
        return base if name == "copy" else element_of(base)
    return UNKNOWN


def _moved(scope: Scope, node: ast.Call, name: str, base: Place) -> Place:
    """``.to(...)`` and its like: to where a tensor is, to a device, or nowhere else."""
    places = _arguments(scope, node)
    if name == "pin_memory":
        return base
    if (name == "cuda" and not node.args and not node.keywords) or (name == "to" and _is_cuda(*node.args[:1])):
        return _to_cuda(scope, node, base)
    if name == "cuda":
        scope.distrust(base)
    if name in ("cuda", "cpu"):
        return MOVED
    if name == "type_as" and places:
        return _with(places[0][1])
    keywords = {k.arg: k.value for k in node.keywords}
    if None in keywords or any(isinstance(a, ast.Starred) for a in node.args):
        return MOVED
    if "device" in keywords:
        return _sent(scope, base, _where(scope, keywords["device"]))
    wanted = node.args[0] if node.args else keywords.get("other")
    if wanted is None:
        return base
    value = scope.value(wanted)
    if isinstance(value, Dtype) or _names_dtype(scope, wanted, value):
        return base
    if name == "type":
        return MOVED
    if isinstance(value, (Device, Constant)) or (isinstance(wanted, ast.Attribute) and wanted.attr == "device"):
        return _sent(scope, base, _where(scope, wanted))
    named = chosen(scope, wanted)
    return _sent(scope, base, _with(scope.at(wanted)) if named == MOVED else named)


def _to_cuda(scope: Scope, node: ast.Call, base: Place) -> Place:
    """``.cuda()``: what is made here is on the current GPU from here on, wherever what is given may be."""
    made = [a for a in base if isinstance(a, Made)] if not isinstance(base, Parts) else []
    if isinstance(base, Parts) or len(made) < len(base):
        scope.distrust(base)
        return MOVED
    return (
        UNKNOWN if scope.minds_devices else frozenset(replace(a, factory=node, site=node, device="cuda") for a in made)
    )


def _sent(scope: Scope, base: Place, place: Place) -> Place:
    if place == MOVED or only_chosen(place):
        scope.distrust(base)
    return place


def _with(place: Place) -> Place:
    moved = each(place, lambda a: (replace(a, tensor=True, moved=True),) if isinstance(a, At) else (a,))
    known = not isinstance(moved, Parts) and all(isinstance(a, (At, Made)) for a in moved)
    return moved if known else MOVED


def _names_dtype(scope: Scope, node: ast.expr, value: object) -> bool:
    """Say whether an argument of ``to`` is a dtype: one of torch's, or something called so."""
    if isinstance(value, Reference):
        return value.name in ("builtins.float", "builtins.int", "builtins.bool")
    text = ast.unparse(node)
    return text.endswith("dtype") or text == "dtype"
