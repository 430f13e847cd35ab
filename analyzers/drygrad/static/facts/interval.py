"""Intervals of numbers whose ends say whether the program itself reaches them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import IntEnum

_INFINITE = math.inf


class End(IntEnum):
    """Whether an element lies exactly at the end of an interval.

    ``MAY`` is a claim, too: what was computed gets there by itself, as ``relu`` gets to 0. Where only the value of a
    parameter could bring it there, the end is ``OPEN``.
    """

    OPEN = 0
    ROUNDED = 1
    """Single elements get there where they are rounded, as a sigmoid to 1; a sum or a mean of many does not."""
    MAY = 2
    SURE = 3


@dataclass(frozen=True, slots=True)
class Range:
    """All elements lie between two numbers, which may be infinite."""

    low: float = -_INFINITE
    high: float = _INFINITE
    at_low: End = End.OPEN
    at_high: End = End.OPEN

    @property
    def positive(self) -> bool:
        """Whether no element is 0 or below, as far as the text tells."""
        return self.low > 0 or (self.low == 0 and self.at_low is End.OPEN)

    @property
    def nonnegative(self) -> bool:
        """Whether no element is below 0."""
        return self.low >= 0

    @property
    def bounded(self) -> bool:
        """Whether neither end is infinite."""
        return self.low > -_INFINITE and self.high < _INFINITE

    def is_always(self, number: float) -> bool:
        """Say whether every element is this number."""
        return self.low == self.high == number

    def reach(self, number: float) -> End:
        """Say whether an element is this number by the program's own doing."""
        if self.low == number:
            return max(self.at_low, self.at_high) if self.high == number else self.at_low
        return self.at_high if self.high == number else End.OPEN

    def __neg__(self) -> Range:
        return Range(-self.high, -self.low, self.at_high, self.at_low)

    def __add__(self, other: Range) -> Range:
        return Range(
            _total(self.low, other.low, -_INFINITE),
            _total(self.high, other.high, _INFINITE),
            _both(self, self.at_low, other, other.at_low),
            _both(self, self.at_high, other, other.at_high),
        )

    def __sub__(self, other: Range) -> Range:
        return self + -other

    def __mul__(self, other: Range) -> Range:
        corners = [
            _product(mine, self, theirs, other)
            for mine in ((self.low, self.at_low), (self.high, self.at_high))
            for theirs in ((other.low, other.at_low), (other.high, other.at_high))
        ]
        low, high = min(value for value, _ in corners), max(value for value, _ in corners)
        return Range(
            low, high, max(end for value, end in corners if value == low), max(e for v, e in corners if v == high)
        )

    def mapped(self, function: Callable[[float], float]) -> Range:
        """Return the image under a function that grows."""
        return Range(_image(function, self.low), _image(function, self.high), self.at_low, self.at_high)

    def picked(self) -> Range:
        """Return the range of some of the elements: the one that was surely at an end may have been left out."""
        if self.low == self.high:
            return self
        return replace(self, at_low=_left_out(self.at_low), at_high=_left_out(self.at_high))

    def averaged(self) -> Range:
        """Return the range of what is computed from many of the elements."""
        some = self.picked()
        if End.ROUNDED not in (some.at_low, some.at_high):
            return some
        low, high = (End.OPEN if end is End.ROUNDED else end for end in (some.at_low, some.at_high))
        return replace(some, at_low=low, at_high=high)

    def magnitudes(self) -> Range:
        """Return the range of the absolute values."""
        if self.low >= 0:
            return self
        if self.high <= 0:
            return -self
        # Of a number that was shifted (x + eps) nobody knows whether it is ever 0.
        end = End.OPEN if self == ANY else End.MAY
        high, at_high = _outer((-self.low, self.at_low), (self.high, self.at_high), max)
        return Range(0.0, high, end, at_high)

    def union(self, other: Range) -> Range:
        """Return what holds where either may be."""
        low, at_low = _outer((self.low, self.at_low), (other.low, other.at_low), min)
        high, at_high = _outer((self.high, self.at_high), (other.high, other.at_high), max)
        return Range(low, high, at_low, at_high)

    def widened(self, other: Range) -> Range:
        """Return what holds where two paths meet: an end that moved goes on to the next of a few, so that loops end."""
        both = self.union(other)
        low, at_low = both.low, both.at_low
        if self.low != other.low:
            low = max((stop for stop in _STOPS if stop <= low), default=-_INFINITE)
            at_low = at_low if low == both.low else End.OPEN
        high, at_high = both.high, both.at_high
        if self.high != other.high:
            high = min((stop for stop in _STOPS if stop >= high), default=_INFINITE)
            at_high = at_high if high == both.high else End.OPEN
        return Range(low, high, at_low, at_high)

    def above(self, bound: float, *, strictly: bool) -> Range:
        """Return what is left where a test has shown that all are above a bound."""
        if self.high < bound or (self.high == bound and strictly):
            return ANY
        if self.low > bound or (self.low == bound and not strictly):
            return self
        return replace(self, low=bound, high=max(self.high, bound), at_low=End.OPEN if strictly else End.MAY)

    def below(self, bound: float, *, strictly: bool) -> Range:
        """Return what is left where a test has shown that all are below a bound."""
        return -(-self).above(-bound, strictly=strictly)

    def without(self, number: float) -> Range:
        """Return what is left where a test has shown that none is this number."""
        if self.is_always(number):
            return ANY  # what follows is never reached
        at_low = End.OPEN if self.low == number else self.at_low
        return replace(self, at_low=at_low, at_high=End.OPEN if self.high == number else self.at_high)


_STOPS = (-1.0, 0.0, 1.0)
ANY = Range()
"""Something was added, or a bound of unknown amount set, which keeps it off 0 as far as one can tell."""
ZERO = Range(0.0, 0.0, End.SURE, End.SURE)
POSITIVE = Range(0.0)
NONNEGATIVE = Range(0.0, at_low=End.MAY)
UNIT = Range(0.0, 1.0, End.MAY, End.MAY)
PROBABILITY = Range(0.0, 1.0, End.ROUNDED, End.ROUNDED)
AROUND_ZERO = Range(-1.0, 1.0, End.MAY, End.MAY)


def point(number: float) -> Range:
    """Return the range of one number."""
    return Range(float(number), float(number), End.SURE, End.SURE)


def union_of(ranges: Iterable[Range | None]) -> Range | None:
    """Return what holds of all; None where one is not known, or there is none."""
    result: Range | None = None
    for each in ranges:
        if each is None:
            return None
        result = each if result is None else result.union(each)
    return result


def _total(first: float, second: float, undetermined: float) -> float:
    total = first + second
    return undetermined if math.isnan(total) else total


def _both(first: Range, at_first: End, second: Range, at_second: End) -> End:
    """Two elements that are each at an end need not be the same one."""
    end = min(at_first, at_second)
    return end if first.low == first.high or second.low == second.high else _once(end)


def _once(end: End) -> End:
    return min(end, End.MAY)


def _left_out(end: End) -> End:
    return End.OPEN if end is End.SURE else end


def _product(mine: tuple[float, End], first: Range, theirs: tuple[float, End], second: Range) -> tuple[float, End]:
    (a, at_a), (b, at_b) = mine, theirs
    if a == 0 or b == 0:
        return 0.0, max(at_a if a == 0 else End.OPEN, at_b if b == 0 else End.OPEN)
    return a * b, _both(first, at_a, second, at_b)


def _image(function: Callable[[float], float], number: float) -> float:
    try:
        return function(number)
    except OverflowError:
        return _INFINITE
    except ValueError:  # a logarithm of 0
        return -_INFINITE


def _outer(
    first: tuple[float, End], second: tuple[float, End], choose: Callable[[float, float], float]
) -> tuple[float, End]:
    bound = choose(first[0], second[0])
    ends = [end for value, end in (first, second) if value == bound]
    return bound, max(ends) if len(ends) > 1 and min(ends) is End.SURE else _once(max(ends))
