"""The abstract values: what may be known of an expression without running it.

Every field that is None is unknown. A value claims nothing that is not true on every path that reaches its expression.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from drygrad.static.facts.interval import Range

Dim: TypeAlias = int | str | None
"""A size: a number, a name that stands for one unknown number throughout a function, or unknown."""
Shape: TypeAlias = tuple[Dim, ...]
Form: TypeAlias = Literal["function", "method", "module", "operator"]


class Value:
    """Something of which nothing is known; the base of all that is known more of."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Unknown"


UNKNOWN = Value()


@dataclass(frozen=True, slots=True)
class Constant(Value):
    """A literal, or the result of arithmetic on literals: a number, string, bool, None, Ellipsis."""

    value: object


NONE = Constant(None)


@dataclass(frozen=True, slots=True)
class Number(Value):
    """A Python number whose amount is unknown; ``cut`` is the call that took it out of a graph (``loss.item()``)."""

    origin: Origin | None = None
    cut: ast.expr | None = None
    symbol: str | None = None
    """The name of the size that it is (``x.shape[0]``), to compare shapes by."""
    range: Range | None = None


@dataclass(frozen=True, slots=True)
class Quantity(Value):
    """A number, an array or a tensor, nobody knows which: a parameter of a function, or what was computed from one.

    To whoever asks for tensors it is unknown. Rules see its range (``Context.range``), and its ``device``: the one that
    ``.to(device)`` has put it on, whatever it is.
    """

    range: Range | None = None
    origin: Origin | None = None
    storage: object = None
    device: str | None = None


def is_unknown(value: Value | None) -> bool:
    """Say whether nothing is known of the type of a value."""
    return value is UNKNOWN or isinstance(value, Quantity)


@dataclass(frozen=True, slots=True)
class Device(Value):
    """A device or its name: ``cpu``, ``cuda``, ``cuda:1``, ``mps``.

    ``auto`` is CUDA where there is any, else the CPU; ``$name`` is whatever the name holds.
    """

    name: str


@dataclass(frozen=True, slots=True)
class Dtype(Value):
    """A torch dtype by its full name: ``float32``, ``int64``, ``bool`` ..."""

    name: str


@dataclass(frozen=True, slots=True)
class Reference(Value):
    """Something imported or built in, by its full canonical name: ``torch.nn.functional.relu``, ``builtins.len``."""

    name: str


@dataclass(frozen=True, slots=True)
class Sequence(Value):
    """A tuple or list. ``items`` is None where the length is unknown; ``element`` is then the join of its elements."""

    kind: Literal["tuple", "list", "set", "iterator"]
    items: tuple[Value, ...] | None = None
    element: Value = UNKNOWN


@dataclass(frozen=True, slots=True)
class Mapped(Value):
    """A dict with literal string keys; others are unknown."""

    entries: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Choice(Value):
    """One of a few values, depending on the path taken."""

    options: tuple[Value, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """The operation that made a value. Two origins are equal when they are the same place in the text."""

    operation: str
    node: ast.expr
    operands: tuple[Value, ...] = field(default=(), repr=False)
    call: TorchCall | None = field(default=None, repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Origin) and self.node is other.node and self.operation == other.operation

    def __hash__(self) -> int:
        return id(self.node)


@dataclass(frozen=True, slots=True)
class Tensor(Value):
    """A torch tensor.

    ``requires_grad`` says whether autograd records what is done with it; ``leaf`` whether it is no result of a recorded
    operation; ``storage`` is the place that allocated its memory (views share it); ``cut`` the call that took it out of
    the graph (detach, argmax, a comparison); ``range`` between which numbers its elements lie; ``parameter`` and
    ``buffer`` whether it is an ``nn.Parameter`` or a registered buffer of its module; ``part`` tells one of several
    results or elements from the others, of which just as much is known. Where paths meet on which different operations
    made it, ``ways`` has the tensors of these paths, as far as all are known.
    """

    shape: Shape | None = None
    dtype: str | None = None
    device: str | None = None
    requires_grad: bool | None = None
    leaf: bool | None = None
    origin: Origin | None = None
    storage: object = None
    range: Range | None = None
    cut: ast.expr | None = None
    parameter: bool = False
    buffer: bool = False
    part: object = field(default=None, compare=False, repr=False)
    ways: tuple[Tensor, ...] = field(default=(), compare=False, repr=False)

    def made_by(self, *operations: str) -> bool:
        """Say whether one of these operations made the tensor, on every path."""
        return self.origin is not None and self.origin.operation in operations


FLOATING = frozenset({"float16", "bfloat16", "float32", "float64", "floating"})
"""``floating`` stands for the default float dtype where a file may have changed it."""
INTEGERS = frozenset({"uint8", "int8", "int16", "int32", "int64"})


@dataclass(frozen=True, slots=True)
class Arguments:
    """The values of a call's arguments; ``complete`` is False where ``*args`` or ``**kwargs`` hide some."""

    positional: tuple[Value, ...] = ()
    keywords: Mapping[str, Value] = field(default_factory=dict[str, Value])
    complete: bool = True

    def get(self, name: str, position: int | None = None) -> Value | None:
        """Return an argument by keyword or position; None where it is not given, UNKNOWN where it may be hidden."""
        if name in self.keywords:
            return self.keywords[name]
        if position is not None and position < len(self.positional):
            return self.positional[position]
        return None if self.complete else UNKNOWN


@dataclass(frozen=True, slots=True, eq=False)
class Class(Value):
    """A class defined in the file. ``bases`` are Class or Reference values; ``members`` its body's names."""

    name: str
    node: ast.ClassDef
    bases: tuple[Value, ...] = ()
    members: Mapping[str, Value] = field(default_factory=dict[str, Value])

    def lineage(self) -> Iterable[Class]:
        """Yield the class and its bases that stand in the file, nearest first."""
        yield self
        for base in self.bases:
            if isinstance(base, Class) and base is not self:
                yield from base.lineage()

    def derives_from(self, *names: str) -> bool:
        """Say whether a base, at any distance, is one of these imported names."""
        return any(isinstance(b, Reference) and b.name in names for c in self.lineage() for b in c.bases)

    @property
    def known_bases(self) -> bool:
        """Whether every base is a class of this file or of a library that we know."""
        return all(isinstance(b, (Class, Reference)) for c in self.lineage() for b in c.bases)

    def member(self, name: str) -> Value | None:
        """Return a class attribute or method, looked up as Python does; None where the file shows none."""
        return next((c.members[name] for c in self.lineage() if name in c.members), None)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Class) or self.node is not other.node:
            return False
        return self.bases == other.bases and self.members == other.members

    def __hash__(self) -> int:
        return id(self.node)


@dataclass(frozen=True, slots=True)
class Object(Value):
    """An instance: of an imported class (``torch.optim.Adam``) or of one of the file (``cls``).

    ``node`` is the constructor call; for modules, ``device`` is where ``.to``/``.cuda`` put the parameters,
    ``training`` the last of train()/eval() and ``frozen`` whether ``requires_grad_(False)`` was called.
    """

    type: str
    node: ast.expr | None = None
    arguments: Arguments = field(default_factory=Arguments)
    cls: Class | None = None
    device: str | None = None
    dtype: str | None = None
    training: bool | None = None
    frozen: bool = False
    bases: tuple[str, ...] = ()
    """The full names of the base classes, for a class of another file of the project."""

    @property
    def is_module(self) -> bool:
        """Whether it is a torch.nn.Module, for certain."""
        if self.bases:
            return any(is_module_class(base) for base in self.bases)
        if self.cls is not None:
            return any(
                isinstance(b, Reference) and is_module_class(b.name) for c in self.cls.lineage() for b in c.bases
            )
        return is_module_class(self.type)


def is_module_class(name: str) -> bool:
    """Say whether a full name is that of an nn.Module class of a library that we know."""
    package, _, last = name.rpartition(".")
    if package in ("torch.nn", "torch.nn.parallel"):
        return last[:1].isupper() and last not in (
            "Parameter",
            "UninitializedParameter",
            "Buffer",
            "UninitializedBuffer",
        )
    return name in LIGHTNING_MODULES or name == "transformers.PreTrainedModel"


LIGHTNING_MODULES = frozenset(
    f"{package}.{name}"
    for package in ("pytorch_lightning", "lightning", "lightning.pytorch", "lightning.fabric")
    for name in ("LightningModule", "core.LightningModule")
)


@dataclass(frozen=True, slots=True, eq=False)
class Function(Value):
    """A function, method or lambda of the file; ``receiver`` is what a bound method is bound to."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    owner: Class | None = None
    receiver: Value | None = None
    scope: object = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Function) or self.node is not other.node:
            return False
        return self.scope is other.scope and self.receiver == other.receiver

    def __hash__(self) -> int:
        return id(self.node)


@dataclass(frozen=True, slots=True)
class Method(Value):
    """A method of a tensor, library object or unknown value, not yet called: ``x.softmax``, ``optimizer.step``."""

    receiver: Value
    name: str


@dataclass(frozen=True, slots=True)
class Partial(Value):
    """What ``functools.partial`` returns: something to be called, with some of its arguments."""

    function: Value
    arguments: Arguments


@dataclass(frozen=True, slots=True)
class Super(Value):
    """What ``super()`` returns in a method of a class of the file."""

    cls: Class
    receiver: Value


@dataclass(frozen=True, slots=True)
class ParameterList(Value):
    """The iterator that ``module.parameters()`` and the like return."""

    module: Value
    kind: str


@dataclass(frozen=True, slots=True, eq=False)
class TorchCall:
    """A call (or operator) whose target is known to be torch's, in one form whatever the spelling.

    ``F.softmax(x, -1)``, ``torch.softmax(x, -1)``, ``x.softmax(-1)`` and ``nn.Softmax(-1)(x)`` all are the operation
    ``softmax`` with ``x`` as operand 0. ``target`` tells them apart: ``torch.nn.functional.softmax``,
    ``Tensor.softmax``, ``torch.nn.Softmax``. An in-place form has the operation's plain name (``clamp``) and
    ``inplace`` set.
    """

    node: ast.Call
    operation: str
    target: str
    form: Form
    operands: tuple[ast.expr, ...]
    values: tuple[Value, ...]
    keywords: Mapping[str, ast.expr]
    keyword_values: Mapping[str, Value]
    signature: tuple[str, ...] = ()
    module: Object | None = None
    module_signature: tuple[str, ...] = ()
    inplace: bool = False
    receiver_known: bool = True
    """False for a method call on a value that may not be a tensor at all."""

    def operand(self, name: str) -> ast.expr | None:
        """Return the expression of a call argument by its name, however it was passed."""
        if name in self.keywords:
            return self.keywords[name]
        index = self.signature.index(name) if name in self.signature else -1
        return self.operands[index] if 0 <= index < len(self.operands) else None

    def value(self, name: str) -> Value | None:
        """Return the value of an argument or, for a module, of its constructor's argument; None: not given."""
        if name in self.keyword_values:
            return self.keyword_values[name]
        index = self.signature.index(name) if name in self.signature else -1
        if 0 <= index < len(self.values):
            return self.values[index]
        if self.module is None:
            return None
        position = self.module_signature.index(name) if name in self.module_signature else None
        return self.module.arguments.get(name, position)

    def constant(self, name: str, default: object) -> object:
        """Return an argument's literal value, the default where it is not given, ``...`` where it is not known."""
        value = self.value(name)
        if value is None:
            return default
        return value.value if isinstance(value, Constant) else ...


def join(first: Value, second: Value) -> Value:
    """Return what holds of both values: the meeting of two paths."""
    if first is second or first == second:
        return first
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return _join_tensors(first, second)
    if isinstance(first, Object) and isinstance(second, Object):
        return _join_objects(first, second)
    if isinstance(first, Sequence) and isinstance(second, Sequence) and first.kind == second.kind:
        return _join_sequences(first, second)
    if isinstance(first, Number) and isinstance(second, Number):
        return Number(
            first.origin if first.origin == second.origin else None,
            first.cut if first.cut is second.cut else None,
            range=_join_ranges(first.range, second.range),
        )
    if isinstance(first, Quantity) and isinstance(second, Quantity):
        known, device = _join_ranges(first.range, second.range), first.device if first.device == second.device else None
        return UNKNOWN if known is None and device is None else Quantity(known, device=device)
    return _choice(first, second)


def join_all(values: Iterable[Value]) -> Value:
    """Join any number of values; UNKNOWN for none."""
    result: Value | None = None
    for value in values:
        result = value if result is None else join(result, value)
    return UNKNOWN if result is None else result


def _join_tensors(first: Tensor, second: Tensor) -> Tensor:
    return Tensor(
        shape=join_shapes(first.shape, second.shape),
        dtype=first.dtype if first.dtype == second.dtype else None,
        device=first.device if first.device == second.device else None,
        requires_grad=first.requires_grad if first.requires_grad == second.requires_grad else None,
        leaf=first.leaf if first.leaf == second.leaf else None,
        origin=first.origin if first.origin == second.origin else None,
        storage=first.storage if first.storage is second.storage else None,
        range=_join_ranges(first.range, second.range),
        cut=first.cut if first.cut is second.cut else None,
        parameter=first.parameter and second.parameter,
        buffer=first.buffer and second.buffer,
        ways=() if first.origin is not None and first.origin == second.origin else _ways(first, second),
    )


def _ways(first: Tensor, second: Tensor) -> tuple[Tensor, ...]:
    """Return what a tensor may be, by the operations that made it; nothing where one of them is not known."""
    ways = [first.ways or (first,), second.ways or (second,)]
    if any(way.origin is None for side in ways for way in side):
        return ()
    found = {way.origin: way for side in ways for way in side}
    return tuple(found.values()) if len(found) <= MAX_WAYS else ()


def join_shapes(first: Shape | None, second: Shape | None) -> Shape | None:
    """Return the shape that both may have."""
    if first is None or second is None or len(first) != len(second):
        return None
    return tuple(a if a == b else None for a, b in zip(first, second, strict=True))


def _join_ranges(first: Range | None, second: Range | None) -> Range | None:
    if first == second or first is None or second is None:
        return first if first == second else None
    return first.widened(second)


def _join_objects(first: Object, second: Object) -> Value:
    if first.type != second.type or first.cls != second.cls:
        return _choice(first, second)
    return Object(
        first.type,
        first.node if first.node is second.node else None,
        first.arguments if first.arguments == second.arguments else Arguments(complete=False),
        first.cls,
        first.device if first.device == second.device else None,
        first.dtype if first.dtype == second.dtype else None,
        first.training if first.training == second.training else None,
        first.frozen or second.frozen,
        first.bases,
    )


def _join_sequences(first: Sequence, second: Sequence) -> Sequence:
    if first.items is not None and second.items is not None and len(first.items) == len(second.items):
        return Sequence(first.kind, tuple(join(a, b) for a, b in zip(first.items, second.items, strict=True)))
    if first.items == () or second.items == ():  # an empty list says nothing of elements
        return Sequence(first.kind, None, element_of(second if first.items == () else first))
    return Sequence(first.kind, None, join(element_of(first), element_of(second)))


def element_of(sequence: Sequence) -> Value:
    """Return what is known of every element."""
    return told_apart(sequence.element if sequence.items is None else join_all(sequence.items))


def told_apart(value: Value) -> Value:
    """Return one of several values of which the same is known: the next one is another."""
    return replace(value, part=object()) if isinstance(value, Tensor) else value


def _choice(first: Value, second: Value) -> Value:
    options: list[Value] = []
    for value in (first, second):
        for option in value.options if isinstance(value, Choice) else (value,):
            if option not in options:
                options.append(option)
    if any(map(is_unknown, options)) or len(options) > MAX_OPTIONS:
        return UNKNOWN
    return options[0] if len(options) == 1 else Choice(tuple(options))


MAX_WAYS = 6
"""How many operations are remembered that may have made a tensor, by the path taken."""
MAX_OPTIONS = 4


def options_of(value: Value) -> tuple[Value, ...]:
    """Return the alternatives of a Choice, or the value itself."""
    return value.options if isinstance(value, Choice) else (value,)
