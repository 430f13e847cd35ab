"""What not all ranks should do: train on the same batches, write one file, take more batches than others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from drygrad.worker.run import Fault, Place

SAME_BATCHES, SAME_FILE, UNEVEN = "DG777", "DG818", "DG620"


def shared(notes: Sequence[Mapping[str, Any]]) -> Iterator[Fault]:
    """Yield the faults of what all ranks have noted."""
    loaders = [{tuple(one["loop"][:2]): one for one in each["loaders"] if one["loop"]} for each in notes]
    for where, first in loaders[0].items():
        others = [each[where] for each in loaders[1:] if where in each]
        if len(others) == len(loaders) - 1 and all(one["trained"] for one in (first, *others)):
            yield from _of_loader(first, others)
    yield from _of_files(notes)


def _of_loader(first: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> Iterator[Fault]:
    at, loop = Place(*first["at"]), Place(*first["loop"])
    related = [("each rank iterates over it here", loop)] if (at.path, at.line) != (loop.path, loop.line) else []
    digests = first["digests"]
    if len({*digests}) >= 2 and all(one["digests"] == digests for one in others):
        message = "all ranks train on the same batches, so every rank does the same work and averages equal gradients"
        yield Fault(SAME_BATCHES, message, at, related=related)
    unlike = next((one for one in others if one["total"] != first["total"]), None)
    if unlike is not None and None not in (first["total"], unlike["total"]):
        message = f"this loader has {first['total']} batches on rank 0 and {unlike['total']} on another rank: "
        message += "the rank with more batches hangs in its next backward pass"
        yield Fault(UNEVEN, message, at, severity="warning", related=related)


def _of_files(notes: Sequence[Mapping[str, Any]]) -> Iterator[Fault]:
    told: set[str] = set()
    for write in notes[0]["writes"]:
        path = write["path"]
        others = [
            any(one["path"] == path and one["met"] == write["met"] for one in each["writes"]) for each in notes[1:]
        ]
        if path not in told and all(others):
            told.add(path)
            message = f"all {len(notes)} ranks write `{path.rpartition('/')[2]}` at the same time"
            yield Fault(SAME_FILE, message, Place(*write["at"]))
