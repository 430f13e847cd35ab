"""What an error asks of the inputs: read from the call that failed, from the words, or from the code that raised."""

from __future__ import annotations

from collections.abc import Iterator

from drygrad.worker.search.calls import by_call, by_dtype
from drygrad.worker.search.comparisons import compared, distinguished_by, unpacked
from drygrad.worker.search.kinds import misfits
from drygrad.worker.search.lacking import lacking, named, offered, standing_in
from drygrad.worker.search.states import behaving, unset
from drygrad.worker.search.trial import Failure
from drygrad.worker.search.want import Want
from drygrad.worker.search.words import by_words


def wants(failure: Failure) -> Iterator[Want]:
    """Yield what an error asks for, the surest first."""
    if failure.call is not None:
        yield from by_call(failure.call)
    yield from misfits(failure)
    yield from unset(failure)
    yield from behaving(failure)
    yield from lacking(failure)
    yield from standing_in(failure)
    yield from offered(failure)
    yield from distinguished_by(failure)
    yield from named(failure)
    yield from by_words(failure)
    yield from compared(failure)
    yield from unpacked(failure)
    if failure.call is not None:
        yield from by_dtype(failure.call)
