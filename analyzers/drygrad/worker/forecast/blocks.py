"""Blocks of device memory and the pools of those that are free: the furniture of the caching allocator."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator


class Block:
    """A range of addresses: in use, free, or (in an expandable segment) not backed by memory."""

    __slots__ = ("address", "after", "before", "expandable", "mapped", "pool", "size", "used")

    def __init__(self, address: int, size: int, pool: Pool) -> None:
        self.address, self.size, self.pool = address, size, pool
        self.used, self.mapped, self.expandable = False, True, False
        self.before: Block | None = None
        self.after: Block | None = None

    @property
    def whole(self) -> bool:
        """Whether it is all of its segment."""
        return self.before is None and self.after is None

    def split(self, size: int) -> Block:
        """Keep the first bytes, and return the rest as a block of its own, which stands after this one."""
        rest = Block(self.address + size, self.size - size, self.pool)
        rest.expandable, rest.mapped = self.expandable, self.mapped
        rest.before, rest.after = self, self.after
        if self.after is not None:
            self.after.before = rest
        self.after, self.size = rest, size
        return rest

    def absorb(self, other: Block | None) -> None:
        """Take in a neighbour, where it is free, and mapped as this one is."""
        if other is None or other.used or other.mapped != self.mapped:
            return
        other.pool.remove(other)
        if other is self.before:
            self.address, self.before = other.address, other.before
            if self.before is not None:
                self.before.after = self
        else:
            self.after = other.after
            if self.after is not None:
                self.after.before = self
        self.size += other.size


class Pool:
    """The blocks that nobody uses, the smallest first; small and large requests have a pool each."""

    def __init__(self, *, small: bool) -> None:
        self.small = small
        self._order: list[tuple[int, int]] = []
        self._free: dict[int, Block] = {}
        self._unmapped: list[int] = []
        self._gaps: dict[int, Block] = {}

    def __iter__(self) -> Iterator[Block]:
        """Go through the free blocks that have memory, as they are now."""
        return iter([self._free[address] for _, address in self._order])

    def add(self, block: Block) -> None:
        """Enter a block that is free, or not mapped."""
        if block.mapped:
            insort(self._order, (block.size, block.address))
            self._free[block.address] = block
        else:
            insort(self._unmapped, block.address)
            self._gaps[block.address] = block

    def remove(self, block: Block) -> None:
        """Take a block out."""
        if block.mapped:
            del self._order[bisect_left(self._order, (block.size, block.address))]
            del self._free[block.address]
        else:
            del self._unmapped[bisect_left(self._unmapped, block.address)]
            del self._gaps[block.address]

    def at_least(self, size: int) -> Iterator[Block]:
        """Return the free blocks of this size and above, the best fit first."""
        for index in range(bisect_left(self._order, (size, 0)), len(self._order)):
            yield self._free[self._order[index][1]]

    def below(self, size: int) -> Iterator[Block]:
        """Return the free blocks smaller than that, as they are now, the largest first."""
        found = self._order[: bisect_left(self._order, (size, 0))]
        return iter([self._free[address] for _, address in reversed(found)])

    def gaps(self) -> Iterator[Block]:
        """Return what is not mapped of expandable segments, the lowest address first."""
        return iter([self._gaps[address] for address in self._unmapped])
