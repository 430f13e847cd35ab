"""Reading a call's arguments: what cannot be told ends the reading with Unknown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from drygrad.static.facts.shapes.core import Result, Unknown
from drygrad.static.facts.shapes.signatures import CONSTRUCTORS, FORWARDS, FUNCTIONS
from drygrad.static.facts.values import NONE, Constant, Dim, Number, Sequence, Shape, Tensor, TorchCall, Value

ALIASES = {"dim": ("axis",), "keepdim": ("keepdims",), "input": ("self", "x"), "other": ("x2",)}
"""Other names that torch takes an argument by."""


def plain(operation: str) -> str:
    """Return the name under which an operation's shape is known: copies of views have the views' shapes."""
    name = operation.removesuffix("_copy").removeprefix("unsafe_") if operation != "unfold_copy" else operation
    return "split" if name == "split_with_sizes" else name


def size_of_value(value: Value) -> Dim:
    """Return the size that a value stands for."""
    if isinstance(value, Constant):
        return value.value if isinstance(value.value, int) and not isinstance(value.value, bool) else None
    return value.symbol if isinstance(value, Number) else None


def is_size(value: Value) -> bool:
    """Say whether a value is one number, not a sequence of them."""
    return isinstance(value, Number) or size_of_value(value) is not None


def items_of(value: Value) -> tuple[Value, ...]:
    """Return the items of a sequence of known length."""
    if isinstance(value, Sequence) and value.items is not None and value.kind in ("tuple", "list"):
        return value.items
    raise Unknown


def shape_of(value: Value) -> Shape:
    """Return a tensor's shape."""
    if isinstance(value, Tensor) and value.shape is not None:
        return value.shape
    raise Unknown


def operand_shape(value: Value) -> Shape:
    """Return the shape of an operand of arithmetic, where a number broadcasts as a scalar does."""
    if isinstance(value, Number) or (isinstance(value, Constant) and isinstance(value.value, (int, float, complex))):
        return ()
    return shape_of(value)


def integer_of(value: Value) -> int:
    """Return a literal integer."""
    size = size_of_value(value)
    if isinstance(size, int):
        return size
    raise Unknown


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the arguments of one call: those of the call itself, then those of the module's constructor."""

    call: TorchCall

    def given(self, name: str) -> Value | None:
        """Return an argument's value, None where it is not given or is a literal None."""
        value = self._of_call(name)
        if value is None and self.call.module is not None:
            value = self._of_constructor(name)
        return None if value == NONE else value

    def _of_call(self, name: str) -> Value | None:
        keywords, names, values = self.call.keyword_values, self._parameters(), self.call.values
        for key in (name, *ALIASES.get(name, ())):
            if key in keywords:
                return keywords[key]
        if name in names:
            index = names.index(name)
            return values[index] if index < len(values) else None
        if self.call.module is None and len(values) > max(len(names), 1):
            raise Unknown
        return None

    def _parameters(self) -> tuple[str, ...]:
        if self.call.module is not None:
            return FORWARDS.get(self.module_name, ())
        return FUNCTIONS.get(plain(self.call.operation)) or self.call.signature

    @property
    def module_name(self) -> str:
        """The class of the module that is called."""
        return "" if self.call.module is None else self.call.module.type.rpartition(".")[2]

    def _of_constructor(self, name: str) -> Value | None:
        module = self.call.module
        if module is None:
            return None
        names = CONSTRUCTORS.get(self.module_name) or self.call.module_signature
        if name not in names and len(module.arguments.positional) > len(names):
            raise Unknown
        return module.arguments.get(name, names.index(name) if name in names else None)

    def operand(self, index: int, *names: str) -> Value:
        """Return an operand by its position or else by name."""
        values, keywords = self.call.values, self.call.keyword_values
        if index < len(values):
            return values[index]
        for name in names:
            for key in (name, *ALIASES.get(name, ())):
                if key in keywords:
                    return keywords[key]
        raise Unknown

    def shape(self, index: int = 0, *names: str) -> Shape:
        """Return an operand's shape."""
        return shape_of(self.operand(index, *names or ("input",)))

    def integer(self, name: str, default: int | None = None) -> int:
        """Return a literal integer, or the default where the argument is not given."""
        value = self.given(name)
        if value is not None:
            return integer_of(value)
        if default is None:
            raise Unknown
        return default

    def size(self, name: str) -> Dim:
        """Return the size that an argument stands for."""
        value = self.given(name)
        return None if value is None else size_of_value(value)

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a literal truth value."""
        value = self.given(name)
        if value is None:
            return default
        if isinstance(value, Constant):
            return bool(value.value)
        raise Unknown

    def integers(self, name: str) -> tuple[int, ...] | None:
        """Return one or several literal integers; None where the argument is not given."""
        value = self.given(name)
        if value is None:
            return None
        if isinstance(value, Sequence):
            return tuple(integer_of(item) for item in items_of(value))
        return (integer_of(value),)

    def sizes(self, start: int, *names: str) -> Shape:
        """Return sizes given as the call's last arguments, one by one or in one sequence."""
        values = self.call.values[start:] or (self.operand(start, *names),)
        if len(values) == 1 and not is_size(values[0]):
            values = items_of(values[0])
        return tuple(map(size_of_value, values))

    def spatial(self, name: str, count: int, default: Shape) -> Shape:
        """Return one size for each of a layer's spatial dimensions, from one number or a sequence."""
        value = self.given(name)
        if value is None:
            return default
        if isinstance(value, Sequence) and value.items is not None:
            sizes = tuple(map(size_of_value, value.items))
            if len(sizes) == 1:
                return sizes * count
            return sizes if len(sizes) == count else (None,) * count
        return (size_of_value(value),) * count


Handler: TypeAlias = Callable[[Reader], Result]
