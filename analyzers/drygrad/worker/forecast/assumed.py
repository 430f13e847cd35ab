"""What a forecast takes for granted, in sentences: values that lines ask for, and what libraries take by themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from drygrad.worker.forecast.events import Operation, Site, Trace, Use
from drygrad.worker.forecast.gpu import Gpu, nccl_bytes
from drygrad.worker.run import Run

_CONVOLUTIONS = re.compile(r"aten::(_?convolution|cudnn_|miopen_|_cudnn_rnn)")
_MIB = 1 << 20


def sentences(
    values: Mapping[tuple[Site | None, str], int],
    trace: Trace,
    communicators: int,
    environment: Mapping[str, str],
    run: Run,
) -> list[str]:
    """Return all that was assumed."""
    found = [_of_line(run, site, what, count) for (site, what), count in values.items()]
    return [*found, *_of_ranks(run.world, communicators, environment), *_of_libraries(trace)]


def _of_line(run: Run, site: Site | None, what: str, count: int) -> str:
    where = f"{run.where(site.path, site.line)}: " if site is not None else ""
    return f"{where}{what}{f' ({count} times)' if count > 1 else ''}"


def _of_ranks(world: int, communicators: int, environment: Mapping[str, str]) -> Iterator[str]:
    if world > 1:
        yield f"it is the first of {world} ranks; values from other ranks are taken to be its own or unknown"
    if communicators:
        each = nccl_bytes(environment) // _MIB
        several = f"each of {communicators} communicators" if communicators > 1 else "its communicator"
        yield f"NCCL takes {each} MiB for {several}, outside of torch's allocator"


def _of_libraries(trace: Trace) -> Iterator[str]:
    if any(isinstance(event, Use) for event in trace.events):
        yield "memory under `record_stream` comes back when the host waits for the GPU, or after an optimizer's step"
    operations = (event for event in trace.events if isinstance(event, Operation))
    if any(event.device >= 0 and _CONVOLUTIONS.match(event.name) for event in operations):
        yield "convolutions were counted without workspace; cuDNN may use some, depending on the algorithm"


def beside(gpu: Gpu, communicators: int, environment: Mapping[str, str]) -> int:
    """Return what a process takes of the GPU outside of torch's allocator."""
    return gpu.context + communicators * nccl_bytes(environment)
