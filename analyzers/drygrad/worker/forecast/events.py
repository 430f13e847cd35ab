"""What a trace tells, in the order in which it happens: what is allocated and released, and what is computed.

Models of a GPU (its allocator, its speed) read a trace and need nothing of torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

FORWARD, BACKWARD, RECOMPUTE, OPTIMIZER = PHASES = ("forward", "backward", "recompute", "optimizer")
"""Recompute is what a checkpoint calls again inside a backward pass."""

PARAMETERS, BUFFERS, GRADIENTS, STATES, INPUTS, ACTIVATIONS, TEMPORARIES, WORKSPACES = KINDS = (
    "parameters",
    "buffers",
    "gradients",
    "states",
    "inputs",
    "activations",
    "temporaries",
    "workspaces",
)


class Site(NamedTuple):
    """A line of the user's."""

    path: str
    line: int


class Allocation(NamedTuple):
    """Memory that is asked of the device. ``id`` is its own in the trace; ``size`` may be rounded up to 512 bytes."""

    id: int
    size: int
    site: Site | None
    phase: str
    operation: str
    device: int = 0
    stream: int = 0
    """The stream that is current then: the allocator keeps what is free for each apart."""


class Release(NamedTuple):
    """The end of an allocation."""

    id: int


class Use(NamedTuple):
    """Another stream uses an allocation (``record_stream``): once released, it waits for that stream."""

    id: int
    stream: int


class Operation(NamedTuple):
    """One kernel, or a few: told before what it allocates. ``dtype`` is that of its arithmetic: ``bfloat16``."""

    name: str
    flops: int
    read: int
    """Bytes that it must read at least."""
    written: int
    dtype: str
    site: Site | None
    phase: str
    device: int = 0


class Copy(NamedTuple):
    """A transfer between host and device, or a wait of the host for it where no bytes are moved."""

    kind: str
    """``h2d``, ``d2h`` or ``sync``."""
    size: int
    site: Site | None
    phase: str


class Mark(NamedTuple):
    """Where something begins or ends: ``backward``, ``backward-end``, ``step``, ``step-end``."""

    name: str
    site: Site | None
    optimizer: int = 0
    """The number of the optimizer that steps, in the order in which they did so first."""


@dataclass
class Trace:
    """All events of one program, and what is known of its allocations only later."""

    events: list[Allocation | Release | Use | Operation | Copy | Mark] = field(default_factory=lambda: [])
    kinds: dict[int, str] = field(default_factory=lambda: {})
    """What an allocation turned out to be, by its id; those that are not here are temporaries."""
