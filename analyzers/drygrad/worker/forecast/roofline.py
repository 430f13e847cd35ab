"""How fast a GPU could be at best: a bound on the time of each operation, never a measurement.

An operation cannot end before its products are computed at the peak rate, nor before its bytes have been moved at the
full bandwidth of the memory; the later of the two bounds it. Real kernels are slower, and the host that launches them
may be. Only what still lies in the cache on the chip, a few tens of MiB, can be read faster than that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from drygrad.worker.forecast.events import PHASES, Copy, Operation, Site, Trace
from drygrad.worker.forecast.gpu import Gpu

MEMORY, ARITHMETIC = "memory", "arithmetic"
LAUNCH = 5e-6
"""About what the host needs to launch a kernel from eager torch. What would take the GPU less leaves it waiting."""
_BUS = {6: 13e9, 7: 13e9, 8: 25e9, 9: 55e9, 10: 55e9, 12: 55e9}
"""Bytes a second that pinned memory reaches over PCI Express of the generation that came with an architecture."""
_EMULATED = {"bfloat16": "float32", "complex64": "float32", "complex128": "float64", "float64": "float32"}
_SLOWER = {("float64", "float32"): 1 / 64}
"""GeForce and its kin have one unit for float64 to 64 for float32."""


@dataclass
class Share:
    """What operations come to: those of a line, or of a phase."""

    seconds: float = 0.0
    flops: int = 0
    bytes: int = 0
    kernels: int = 0
    small: int = 0
    """Kernels that end sooner than the next can be launched."""
    on_memory: float = 0.0
    """Seconds of operations that memory bounds."""

    @property
    def bound(self) -> str:
        """What bounds most of it."""
        return MEMORY if 2 * self.on_memory >= self.seconds else ARITHMETIC

    def add(self, operation: Operation, seconds: float, *, on_memory: bool) -> None:
        """Count an operation."""
        self.seconds += seconds
        self.flops += operation.flops
        self.bytes += operation.read + operation.written
        self.kernels += 1
        self.small += seconds < LAUNCH
        self.on_memory += seconds if on_memory else 0.0


class Wait(NamedTuple):
    """A line at which host and GPU wait for each other, or move bytes."""

    site: Site | None
    kind: str
    times: int
    bytes: int
    seconds: float
    """What moving the bytes takes at least; waiting takes longer."""


@dataclass
class Roofline:
    """The bound of a trace on one GPU."""

    gpu: Gpu
    total: Share = field(default_factory=Share)
    lines: dict[Site | None, Share] = field(default_factory=lambda: {})
    phases: dict[str, Share] = field(default_factory=lambda: {})
    waits: list[Wait] = field(default_factory=lambda: [])

    def slowest(self, count: int) -> list[tuple[Site | None, Share]]:
        """Return the lines that take the longest at best."""
        return sorted(self.lines.items(), key=lambda item: -item[1].seconds)[:count]

    def sentence(self) -> str:
        """Say it in a line, as in ``at best 41 ms, 62 % of it in line 88, bound by memory``."""
        if not self.total.kernels:
            return "none of its operations run on the GPU"
        said = f"at best {_seconds(self.total.seconds)} on {self.gpu.name}"
        placed = [(site, share) for site, share in self.slowest(2) if site is not None]
        if placed and self.total.seconds:
            site, share = placed[0]
            said += f", {share.seconds / self.total.seconds:.0%} of it on line {site.line}"
        return f"{said}, bound by {self.total.bound}"

    def as_wire(self, count: int = 10) -> dict[str, Any]:
        """Return it as it is sent."""
        return {
            "summary": self.sentence(),
            "seconds": self.total.seconds,
            "flops": self.total.flops,
            "bytes": self.total.bytes,
            "bound": self.total.bound,
            "kernels": self.total.kernels,
            "small_kernels": self.total.small,
            "phases": {name: share.seconds for name, share in self.phases.items()},
            "lines": [_line(site, share) for site, share in self.slowest(count)],
            "waits": [
                {
                    **_where(wait.site),
                    "kind": wait.kind,
                    "count": wait.times,
                    "bytes": wait.bytes,
                    "seconds": wait.seconds,
                }
                for wait in self.waits[:count]
            ],
        }


def roofline(trace: Trace | Iterable[Any], gpu: Gpu, device: int = 0) -> Roofline | None:
    """Return what bounds the time of a trace on a GPU; None where nothing is known of the GPU but its size."""
    if not gpu.bandwidth or not gpu.rates:
        return None
    made = Roofline(gpu)
    lines: defaultdict[Site | None, Share] = defaultdict(Share)
    phases: defaultdict[str, Share] = defaultdict(Share)
    copies: defaultdict[tuple[Site | None, str], list[int]] = defaultdict(list)
    for event in trace.events if isinstance(trace, Trace) else trace:
        if isinstance(event, Operation) and event.device == device:
            seconds, on_memory = bound(event, gpu)
            for share in (made.total, lines[event.site], phases[event.phase]):
                share.add(event, seconds, on_memory=on_memory)
        elif isinstance(event, Copy):
            copies[event.site, event.kind].append(event.size)
    made.lines = dict(lines)
    made.phases = {phase: phases[phase] for phase in PHASES if phase in phases}
    bus = _BUS.get(gpu.capability[0], 25e9)
    made.waits = [Wait(site, kind, len(each), sum(each), sum(each) / bus) for (site, kind), each in copies.items()]
    made.waits.sort(key=lambda wait: (-wait.seconds, -wait.times))
    return made


def bound(operation: Operation, gpu: Gpu) -> tuple[float, bool]:
    """Return the seconds that an operation takes at least, and whether it is memory that bounds it."""
    arithmetic = operation.flops / rate_of(operation.dtype, gpu)
    moving = (operation.read + operation.written) / gpu.bandwidth
    return max(arithmetic, moving), moving >= arithmetic


def rate_of(dtype: str, gpu: Gpu) -> float:
    """Return the peak rate of products; of a dtype that the GPU has no units for, that of what stands in for it."""
    name = "float8" if dtype.startswith("float8") else dtype
    if name in gpu.rates:
        return gpu.rates[name]
    instead = "float32" if name == "tf32" else _EMULATED.get(name)
    if instead is None:
        return max(gpu.rates.values())  # no bound that could be wrong: whole numbers, and what comes to be
    return rate_of(instead, gpu) * _SLOWER.get((name, instead), 1.0)


def _line(site: Site | None, share: Share) -> dict[str, Any]:
    return {
        **_where(site),
        "seconds": share.seconds,
        "flops": share.flops,
        "bytes": share.bytes,
        "kernels": share.kernels,
        "small_kernels": share.small,
        "bound": share.bound,
    }


def _where(site: Site | None) -> dict[str, Any]:
    return {"path": site.path if site else None, "line": site.line if site else None}


def _seconds(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"
