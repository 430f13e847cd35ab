"""What indices a tensor holds, where the text shows it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from collections.abc import Sequence as Indices
from dataclasses import dataclass

from drygrad.static.facts.values import Constant, Origin, Sequence, Tensor, Value
from drygrad.static.rules.loss.origins import RELAYOUTS

_KEEPING = (RELAYOUTS - {"getitem"}) | {"batch"}
"""Operations whose result holds all the values of their operand, sooner or later."""
_LARGEST = 2**31


@dataclass(frozen=True)
class IndexValues:
    """Indices that a tensor holds for certain or, where they are drawn, that may come."""

    indices: Indices[int]
    certain: bool
    origin: Origin

    def outside(self, bound: int, ignored: int | None) -> int | None:
        """Return an index that is negative or not below a bound; None where there is none."""
        for index in self.indices if not isinstance(self.indices, range) else (self.indices[-1], self.indices[0]):
            if index != ignored and not 0 <= index < bound:
                return index
        return None

    @property
    def high(self) -> ast.expr | None:
        """The literal that bounds what is drawn, where it is one."""
        call = self.origin.call
        if call is None or self.origin.operation != "randint":
            return None
        given = call.keywords.get("high") or call.operands[_high_position(call.values)]
        return given if isinstance(given, ast.Constant) else None


def index_values(value: Value | None) -> IndexValues | None:
    """Return the indices of a tensor that was written down, counted or drawn in the file."""
    origin = value.origin if isinstance(value, Tensor) else None
    while origin is not None and origin.operation in _KEEPING:
        source = origin.operands[0] if origin.operands else None
        origin = source.origin if isinstance(source, Tensor) else None
    indices = _made_by(origin) if origin is not None else None
    if origin is None or not indices:
        return None
    return IndexValues(indices, origin.operation != "randint", origin)


def _made_by(origin: Origin) -> Indices[int] | None:
    values = origin.operands
    match origin.operation:
        case "tensor" | "as_tensor" if values and isinstance(values[0], Sequence):
            literals = list(_literals(values[0]))
            return [v for v in literals if v is not None] if None not in literals else None
        case "full":
            fill = values[1] if len(values) > 1 else None
            return [fill.value] if isinstance(fill, Constant) and _is_index(fill.value) else None  # pyright: ignore[reportReturnType]
        case "randint":
            return _drawn(origin)
        case "arange" | "randperm" if len(values) == 1:
            return _range(Constant(0), values[0])
        case _:
            return None


def _literals(value: Value) -> Iterator[int | None]:
    if isinstance(value, Sequence) and value.items is not None:
        for item in value.items:
            yield from _literals(item)
    else:
        yield value.value if isinstance(value, Constant) and _is_index(value.value) else None  # pyright: ignore[reportReturnType]


def _is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST


def _drawn(origin: Origin) -> range | None:
    call = origin.call
    if call is None or any(isinstance(argument, ast.Starred) for argument in call.node.args):
        return None
    high, low = call.keyword_values.get("high"), call.keyword_values.get("low", Constant(0))
    if high is None and call.values:
        position = _high_position(call.values)
        high = call.values[position]
        low = call.values[0] if position == 1 else low
    return _range(low, high)


def _high_position(values: tuple[Value, ...]) -> int:
    """``randint(high, size)`` or ``randint(low, high, size)``."""
    return 1 if len(values) > 1 and not isinstance(values[1], Sequence) else 0


def _range(low: Value, high: Value | None) -> range | None:
    if isinstance(low, Constant) and isinstance(high, Constant) and _is_index(low.value) and _is_index(high.value):
        return range(low.value, high.value)  # pyright: ignore[reportArgumentType]
    return None
