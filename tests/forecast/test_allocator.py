"""The model of the caching allocator: what torch documents of it, and what no sequence of requests may break."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from drygrad.worker.forecast.allocator import CachingAllocator
from drygrad.worker.forecast.allocator_settings import Settings, parse, settings_of

MIB = 1 << 20
CONFIGURATIONS = [
    "",
    "expandable_segments:True",
    "max_split_size_mb:64",
    "roundup_power2_divisions:4",
    "max_split_size_mb:32,roundup_power2_divisions:[1:2,64:8,>:1]",
    "expandable_segments:True,roundup_power2_divisions:8",
]
sizes = st.one_of(st.integers(1, 2000), st.integers(1, 3 * MIB), st.integers(1, 90 * MIB))
requests = st.lists(st.tuples(st.booleans(), sizes, st.integers(0, 10**6)), max_size=60)


def check(allocator: CachingAllocator, live: dict[int, int]) -> None:
    end = 0
    for address in sorted(live):
        assert address >= end
        assert allocator.size_at(address) >= live[address]
        end = address + allocator.size_at(address)
    assert allocator.allocated == sum(allocator.size_at(address) for address in live)
    assert sum(live.values()) == allocator.requested <= allocator.allocated <= allocator.reserved
    assert allocator.allocated <= allocator.peak_allocated <= allocator.peak_reserved


@given(st.sampled_from(CONFIGURATIONS), requests, st.sampled_from([None, 100 * MIB, 400 * MIB]))
@settings(max_examples=200, deadline=None)
def test_blocks_never_overlap_and_all_comes_back(
    configuration: str, steps: list[tuple[bool, int, int]], limit: int | None
) -> None:
    allocator, live = CachingAllocator(limit, parse(configuration)), dict[int, int]()
    for takes, size, which in steps:
        if takes or not live:
            live[allocator.malloc(size)] = size
        else:
            address = sorted(live)[which % len(live)]
            del live[address]
            allocator.free(address)
        check(allocator, live)
        assert limit is None or allocator.refused or allocator.reserved <= limit
    for address in live:
        allocator.free(address)
    assert allocator.allocated == allocator.requested == 0
    allocator.empty_cache()
    assert allocator.reserved == 0


@given(requests)
@settings(max_examples=50, deadline=None)
def test_the_same_again_takes_no_more(steps: list[tuple[bool, int, int]]) -> None:
    allocator = CachingAllocator()

    def step() -> int:
        for address in [allocator.malloc(size) for _, size, _ in steps]:
            allocator.free(address)
        return allocator.peak_reserved

    assert step() == step()


def test_small_requests_share_a_segment_and_are_rounded_to_512() -> None:
    allocator = CachingAllocator()
    first, second = allocator.malloc(1), allocator.malloc(513)
    assert (allocator.allocated, allocator.reserved, second - first) == (1536, 2 * MIB, 512)


def test_a_small_segment_is_used_up_to_its_last_512_bytes() -> None:
    allocator = CachingAllocator()
    for size in (MIB, MIB - 512, 512):
        allocator.malloc(size)
    assert allocator.allocated == allocator.reserved == 2 * MIB


def test_middling_requests_share_a_segment_of_20_mib() -> None:
    allocator = CachingAllocator()
    for _ in range(4):
        allocator.malloc(5 * MIB)
    assert allocator.reserved == 20 * MIB
    allocator.malloc(5 * MIB)
    assert allocator.reserved == 40 * MIB


def test_large_requests_have_a_segment_of_their_own_in_units_of_2_mib() -> None:
    allocator = CachingAllocator()
    allocator.malloc(10 * MIB + 1)
    assert (allocator.allocated, allocator.reserved) == (10 * MIB + 512, 12 * MIB)


def test_a_remainder_of_a_mebibyte_is_not_split_from_a_large_block() -> None:
    allocator = CachingAllocator()
    allocator.malloc(11 * MIB)
    assert allocator.allocated == 12 * MIB


def test_a_stream_does_not_use_what_another_has_freed() -> None:
    allocator = CachingAllocator(100 * MIB)
    allocator.free(allocator.malloc(30 * MIB))
    allocator.malloc(30 * MIB, 1)
    assert (allocator.allocated, allocator.reserved) == (30 * MIB, 60 * MIB)
    allocator.malloc(30 * MIB)
    assert allocator.reserved == 60 * MIB
    allocator.free(allocator.malloc(20 * MIB, 1))
    allocator.malloc(40 * MIB)
    assert (allocator.refused, allocator.reserved) == (None, 100 * MIB), "what any stream has freed is given back"


def test_what_another_stream_uses_serves_again_only_after_that() -> None:
    allocator = CachingAllocator(100 * MIB)
    address = allocator.malloc(30 * MIB, 1)
    allocator.lend(address)
    allocator.free(address)
    assert (allocator.allocated, allocator.reserved) == (0, 30 * MIB), "torch counts it as free"
    second = allocator.malloc(30 * MIB, 1)
    assert (second == address, allocator.reserved) == (False, 60 * MIB)
    allocator.await_streams()
    assert allocator.malloc(30 * MIB, 1) == address
    allocator.lend(address)
    allocator.free(address)
    allocator.malloc(70 * MIB)
    assert (allocator.refused, allocator.reserved) == (None, 100 * MIB), "before it refuses anything, it waits"


def test_what_is_cached_is_given_back_before_a_request_is_refused() -> None:
    allocator = CachingAllocator(100 * MIB)
    allocator.free(allocator.malloc(60 * MIB))
    allocator.malloc(80 * MIB)
    assert (allocator.refused, allocator.reserved, allocator.retries) == (None, 80 * MIB, 1)


def test_what_first_did_not_fit_is_kept_and_the_rest_goes_on() -> None:
    allocator = CachingAllocator(100 * MIB)
    for size in (60, 50, 70):
        allocator.malloc(size * MIB)
    assert allocator.refused is not None
    assert (allocator.refused.requested, allocator.refused.allocated) == (50 * MIB, 60 * MIB)
    assert allocator.peak_reserved == 180 * MIB


def test_a_cached_block_split_in_use_stays_reserved() -> None:
    allocator = CachingAllocator(100 * MIB)
    allocator.free(allocator.malloc(60 * MIB))
    allocator.malloc(15 * MIB)
    allocator.malloc(80 * MIB)
    assert allocator.refused is not None and allocator.refused.reserved == 60 * MIB


def test_expandable_segments_tile_where_segments_of_their_own_fragment() -> None:
    def grow(settings: Settings) -> int:
        allocator = CachingAllocator(settings=settings)
        for size in (30, 34, 38, 42, 46):
            allocator.free(allocator.malloc(size * MIB))
        return allocator.peak_reserved

    assert grow(parse("expandable_segments:True")) == 60 * MIB < grow(Settings()) == 190 * MIB


def test_what_expandable_segments_give_back_is_there_again() -> None:
    allocator = CachingAllocator(100 * MIB, parse("expandable_segments:True"))
    kept, free = allocator.malloc(5 * MIB), allocator.malloc(75 * MIB)
    allocator.free(free)
    allocator.empty_cache()
    assert allocator.reserved == 20 * MIB, "the page that a block in use shares stays"
    again = allocator.malloc(50 * MIB)
    assert allocator.size_at(again) == 50 * MIB and again >= kept + 5 * MIB
    assert allocator.reserved == 60 * MIB, "in whole pages, from the rest of the one that has stayed"


def test_blocks_above_the_split_size_serve_no_small_request() -> None:
    allocator = CachingAllocator(settings=parse("max_split_size_mb:40"))
    allocator.free(allocator.malloc(50 * MIB))
    allocator.malloc(20 * MIB)
    assert allocator.reserved == 70 * MIB
    allocator.malloc(45 * MIB)
    assert allocator.reserved == 70 * MIB, "a request above the split size may take a block that is somewhat larger"


def test_sizes_are_rounded_to_divisions_of_powers_of_two() -> None:
    allocator = CachingAllocator(settings=parse("roundup_power2_divisions:4"))
    assert allocator.rounded(1200 * 512) == 1280 * 512
    assert allocator.rounded(1024 * 512) == 1024 * 512
    assert allocator.rounded(1100) == 1536, "below 512 B a division, the unit counts"
    bounded = CachingAllocator(settings=parse("roundup_power2_divisions:[1:0,256:2,>:8]"))
    assert bounded.rounded(2 * MIB + 1) == 2 * MIB + 512
    assert bounded.rounded(300 * MIB) == 384 * MIB
    assert bounded.rounded(520 * MIB) == 576 * MIB


def test_settings_come_from_the_first_variable_that_torch_reads() -> None:
    environment = {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:100, expandable_segments:True"}
    assert settings_of(environment)[:2] == (True, 100 * MIB)
    assert settings_of({**environment, "PYTORCH_ALLOC_CONF": "backend:native"}) == settings_of({}) == Settings()
