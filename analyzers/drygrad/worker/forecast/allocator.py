"""A model of torch's caching allocator for CUDA: what a sequence of allocations takes from the GPU.

It follows ``c10/cuda/CUDACachingAllocator.cpp`` (its native backend) for one device: the same rounding, pools for each
stream, best fit, splitting and merging, the same release of what is cached before it gives up, the same wait for other
streams that use what is freed (``record_stream``). Private pools of CUDA graphs and garbage collection are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from drygrad.worker.forecast.allocator_settings import Settings
from drygrad.worker.forecast.blocks import Block, Pool

_MIB = 1 << 20
_GRANULE = 512
_SMALL = _MIB
"""The largest request that the pool of small ones serves."""
_SMALL_SEGMENT = 2 * _MIB
_PACKED = 10 * _MIB
"""Requests below share segments; larger ones get one of their own size."""
_ROUNDED = 2 * _MIB
_BEGINNING = 1 << 40
_EXTENT = 1 << 44
"""Addresses of an expandable segment: torch takes an eighth more than the GPU has, here it holds what no GPU could."""


class Refusal(NamedTuple):
    """An allocation that the GPU had no room for, after all that was cached had been given back."""

    requested: int
    """Bytes that the program asked for."""
    segment: int
    """Bytes that the allocator asked the GPU for."""
    allocated: int
    reserved: int


class CachingAllocator:
    """The memory of one GPU as a process sees it: the addresses of its allocations, and what they take.

    Above the limit it goes on, and keeps what it refused first: what a program needs in all is then known.
    """

    def __init__(self, limit: int | None = None, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.limit = limit
        self.allocated = self.reserved = self.requested = 0
        self.peak_allocated = self.peak_reserved = self.peak_requested = 0
        self.segments = self.retries = 0
        self.refused: Refusal | None = None
        self._pools: dict[tuple[bool, int], Pool] = {}
        """By whether they are for small requests, and the stream that uses their memory first."""
        self._used: dict[int, tuple[Block, int]] = {}
        self._next = _BEGINNING
        self._lent: set[int] = set()
        """Addresses that streams use other than their own."""
        self._waiting: list[Block] = []
        """Blocks that are free but for those streams."""

    def malloc(self, requested: int, stream: int = 0) -> int:
        """Return the address of new memory for a stream; 0 for none at all."""
        if requested <= 0:
            return 0
        size = self.rounded(requested)
        pool = self._pool(size <= _SMALL, stream)
        block = self._cached(pool, size) or self._obtained(pool, size, requested)
        if self._splits(block, size):
            pool.add(block.split(size))
        block.used = True
        self._used[block.address] = (block, requested)
        self.allocated += block.size
        self.requested += requested
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        self.peak_requested = max(self.peak_requested, self.requested)
        return block.address

    def free(self, address: int) -> None:
        """Give memory back to the pool it came from, joined with what is free beside it."""
        if not address:
            return
        block, requested = self._used.pop(address)
        self.allocated -= block.size
        self.requested -= requested
        if address in self._lent:
            self._lent.remove(address)
            self._waiting.append(block)
        else:
            self._give(block)

    def _give(self, block: Block) -> None:
        block.used = False
        block.absorb(block.before)
        block.absorb(block.after)
        block.pool.add(block)

    def lend(self, address: int) -> None:
        """Let another stream use memory, which then serves nobody else until that stream has come to its end."""
        if address in self._used:
            self._lent.add(address)

    def await_streams(self) -> None:
        """Let all streams come to their ends: what is free but for them serves again."""
        for block in self._waiting:
            self._give(block)
        self._waiting.clear()

    def size_at(self, address: int) -> int:
        """Return how many bytes the block at an address takes."""
        return self._used[address][0].size if address else 0

    def empty_cache(self) -> None:
        """Give back to the GPU what no block in use holds on to."""
        for pool in self._pools.values():
            for block in pool:
                if block.expandable:
                    self._unmap(block)
                elif block.whole:
                    self._release(block)

    def reset_peaks(self) -> None:
        """Forget the peaks so far."""
        self.peak_allocated, self.peak_reserved, self.peak_requested = self.allocated, self.reserved, self.requested

    def rounded(self, size: int) -> int:
        """Return the size of the block that serves a request."""
        divisions = self.settings.divisions_of(size)
        if divisions <= 1 or size <= _GRANULE * divisions:
            return _up(size, _GRANULE)
        if size & (size - 1) == 0:
            return size
        power = 1 << (size.bit_length() - 1)
        part = power >> (divisions.bit_length() - 1)
        return _up(size, part) if part else power << 1

    def _pool(self, small: bool, stream: int) -> Pool:
        found = self._pools.get((small, stream))
        if found is None:
            found = self._pools[small, stream] = Pool(small=small)
        return found

    def _splits(self, block: Block, size: int) -> bool:
        rest = block.size - size
        if block.pool.small or self.settings.expandable:
            return rest >= _GRANULE
        return rest > _SMALL and not self._oversize(size)

    def _oversize(self, size: int) -> bool:
        return self.settings.max_split is not None and size >= self.settings.max_split

    def _cached(self, pool: Pool, size: int) -> Block | None:
        found = pool.at_least(size)
        best = next(found, None)
        if best is None:
            return None
        # Where a block could grow, the room it has counts: a larger block that cannot grow is the better fit.
        for other in found if best.expandable else ():
            if _growing(other) >= _growing(best):
                break
            best = other
        oversize = self._oversize(size)
        if not oversize and self._oversize(best.size):
            return None
        if oversize and best.size >= size + self.settings.max_rounding:
            return None
        pool.remove(best)
        return best

    def _obtained(self, pool: Pool, size: int, requested: int) -> Block:
        block = self._new(pool, size)
        if block is None and self._give_back_oversize(pool, size):
            block = self._new(pool, size)
        if block is None:
            self.await_streams()
            self.empty_cache()
            self.retries += 1
            block = self._new(pool, size)
        if block is None:
            self.refused = self.refused or Refusal(requested, self._segment(size), self.allocated, self.reserved)
            block = self._new(pool, size, forced=True)
        assert block is not None
        return block

    def _segment(self, size: int) -> int:
        if size <= _SMALL:
            return _SMALL_SEGMENT
        return self.settings.large_segment if size < _PACKED else _up(size, _ROUNDED)

    def _new(self, pool: Pool, size: int, *, forced: bool = False) -> Block | None:
        if self.settings.expandable:
            return self._grown(pool, size, forced=forced)
        segment = self._segment(size)
        if not forced and not self._fits(segment):
            return None
        self._take(segment)
        self.segments += 1
        return Block(self._range(segment), segment, pool)

    def _fits(self, more: int) -> bool:
        return self.limit is None or self.reserved + more <= self.limit

    def _take(self, more: int) -> None:
        self.reserved += more
        self.peak_reserved = max(self.peak_reserved, self.reserved)

    def _range(self, size: int) -> int:
        address = self._next
        self._next += _up(size, _ROUNDED) + _ROUNDED
        return address

    def _release(self, block: Block) -> None:
        block.pool.remove(block)
        self.reserved -= block.size
        self.segments -= 1

    def _give_back_oversize(self, pool: Pool, size: int) -> bool:
        """Release as many cached blocks that may not be split as serve the request; with them allowed only."""
        bound = self.settings.max_split
        if bound is None or self.settings.expandable:
            return False
        wanted = max(size, bound)
        fitting = next(pool.at_least(wanted), None)
        if fitting is not None:
            self._release(fitting)
            return True
        released = 0
        for block in pool.below(wanted):
            if released >= wanted or block.size < bound:
                break
            released += block.size
            self._release(block)
        return released >= wanted

    def _page(self, pool: Pool) -> int:
        return _SMALL_SEGMENT if pool.small else self.settings.large_segment

    def _grown(self, pool: Pool, size: int, *, forced: bool) -> Block | None:
        """Map as much of an expandable segment as the request needs beyond what is free there."""
        block = self._with_room(pool, size)
        if not block.mapped and not self._map(block, min(block.size, size), forced=forced):
            return None
        while block.size < size:
            gap = block.after
            assert gap is not None
            if not self._map(gap, min(size - block.size, gap.size), forced=forced):
                return None
            block = gap
        pool.remove(block)
        return block

    def _with_room(self, pool: Pool, size: int) -> Block:
        for gap in pool.gaps():
            first = gap.before if gap.before is not None and not gap.before.used else gap
            room, block = 0, first
            while room < size and block is not None and not block.used:
                room += block.size
                block = block.after
            if room >= size:
                return first
        extent, page = _up(_EXTENT, self._page(pool)), self._page(pool)
        block = Block(_up(self._range(extent + page), page), extent, pool)
        block.mapped, block.expandable = False, True
        pool.add(block)
        self.segments += 1
        return block

    def _map(self, gap: Block, size: int, *, forced: bool) -> bool:
        """Back the beginning of a gap with memory, in whole pages, and join it with what is free beside it."""
        mapped = _up(size, self._page(gap.pool))
        if not forced and not self._fits(mapped):
            return False
        gap.pool.remove(gap)
        if mapped < gap.size:
            gap.pool.add(gap.split(mapped))
        gap.mapped = True
        self._take(mapped)
        gap.absorb(gap.before)
        gap.absorb(gap.after)
        gap.pool.add(gap)
        return True

    def _unmap(self, block: Block) -> None:
        """Give back the pages that lie wholly within a free block."""
        page = self._page(block.pool)
        begin, end = _up(block.address, page), (block.address + block.size) // page * page
        if begin >= end:
            return
        block.pool.remove(block)
        if begin > block.address:
            rest = block.split(begin - block.address)
            block.pool.add(block)
            block = rest
        if end < block.address + block.size:
            block.pool.add(block.split(end - block.address))
        block.mapped = False
        self.reserved -= block.size
        block.absorb(block.before)
        block.absorb(block.after)
        block.pool.add(block)


def reserved_for(journal: Iterable[tuple[int, int]], settings: Settings | None = None) -> int:
    """Return the most that is reserved for requests, each a key with its bytes; with none where it is given back."""
    allocator, addresses = CachingAllocator(None, settings), dict[int, int]()
    for key, size in journal:
        if size:
            addresses[key] = allocator.malloc(size)
        else:
            allocator.free(addresses.pop(key, 0))
    return allocator.peak_reserved


def _up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _growing(block: Block) -> int:
    after = block.after
    return block.size + (after.size if after is not None and not after.mapped else 0)
