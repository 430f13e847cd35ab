"""What could be different about a program: each change is traced, never computed from a formula."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager

from drygrad.worker.forecast.changes.adapters import Adapters
from drygrad.worker.forecast.changes.change import Change
from drygrad.worker.forecast.changes.deferred import Attention, ChunkedLoss
from drygrad.worker.forecast.changes.float8 import Float8
from drygrad.worker.forecast.changes.graphs import Checkpoint, NoGrad
from drygrad.worker.forecast.changes.offload import OffloadActivations, OffloadStates
from drygrad.worker.forecast.changes.optimizers import (
    Accumulate,
    EightBit,
    Fused,
    OneByOne,
    Plain,
    SetToNone,
    StatesInShards,
)
from drygrad.worker.forecast.changes.precision import Autocast, ChannelsLast, Half
from drygrad.worker.forecast.changes.seen import Seen
from drygrad.worker.forecast.changes.shards import Shards, ShardsOnce
from drygrad.worker.forecast.changes.surroundings import Expandable

_KINDS: dict[str, type[Change]] = {
    kind.word: kind
    for kind in (
        Accumulate,
        Adapters,
        Attention,
        Autocast,
        ChannelsLast,
        Checkpoint,
        ChunkedLoss,
        EightBit,
        Expandable,
        Float8,
        Fused,
        Half,
        NoGrad,
        OffloadActivations,
        OffloadStates,
        OneByOne,
        Plain,
        Seen,
        SetToNone,
        Shards,
        ShardsOnce,
        StatesInShards,
    )
}


@contextmanager
def applied(words: Iterable[str]) -> Generator[list[Change]]:
    """Have changes made while the block runs: ``fused``, ``checkpoint:net.Block``; they tell what they have touched."""
    with ExitStack() as left:
        changes = [_KINDS[word](argument) for word, _, argument in (each.partition(":") for each in words)]
        for change in changes:
            change.enter(left)
        yield changes
