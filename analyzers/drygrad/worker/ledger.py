"""What the storages of one kind of memory come to: live now, at the peak, after each step; each with its origin."""

from __future__ import annotations

import weakref
from collections import defaultdict
from typing import NamedTuple

from drygrad.worker.lines import Instruction
from drygrad.worker.timeline import Timeline

Key = tuple[int, int, str]
"""What storages are counted by: the identity of the code and the offset that made them, and what they are."""


class Origin(NamedTuple):
    """The operation that has made a tensor's values, wherever they were copied to since."""

    instruction: Instruction | None
    op: str
    from_nothing: bool
    """Whether it was made of no other tensor: by a factory such as ``torch.arange``."""
    lines: tuple[Instruction, ...] = ()
    """The user's lines that led there, the innermost first: of what was made of nothing, or copied."""
    aware: int | None = None
    """Which of these lines is the innermost in a function that had the accelerator at hand."""
    within: bool = False
    """Whether the target was at work: then it is of the target's own making."""


class Roots(NamedTuple):
    """Where a tensor has its device and its dtype from: the first of those it was computed from that had them."""

    device: Origin
    dtype: Origin


class Joined(NamedTuple):
    """The concatenation that has given a tensor its shape: where, along which dimension, and of which shapes."""

    instruction: Instruction | None
    dim: int
    shapes: tuple[tuple[int, ...], ...]


class Held(weakref.ref):  # pyright: ignore[reportMissingTypeArgument]
    """A live storage: its bytes, what made it, and in which step of the optimizer it was made."""

    __slots__ = ("__dict__", "address", "born", "key", "ledger", "origin", "roots", "size")

    address: int
    born: int
    key: Key
    ledger: Ledger
    origin: Origin
    roots: Roots
    size: int
    flat: bool = False
    """Whether it has the shape of a tensor that was flattened. What stands from here on is of few."""
    joined: Joined | None = None
    moved: bool = False
    """Whether its values were copied to the accelerator since."""
    source: Held | None = None
    """What it is a copy of."""


class Ledger:
    """Counts the bytes of one device."""

    def __init__(self) -> None:
        self.by_key: defaultdict[Key, int] = defaultdict(int)
        self.live = self.peak = 0
        self.by_phase = {"forward": 0, "backward": 0, "optimizer": 0}
        self.steps: list[int] = []
        self.kept: defaultdict[int, list[dict[Key, int]]] = defaultdict(list)
        """The last few steps of each optimizer."""
        self.timeline = Timeline()
        self._at_peak: dict[Key, int] | None = None

    def enter(self, held: Held, phase: str) -> None:
        """Count a new storage."""
        size, by_phase = held.size, self.by_phase
        self.by_key[held.key] += size
        self.live = live = self.live + size
        if live > self.peak:
            self.peak, self._at_peak = live, None
        phase = phase if phase in by_phase else "backward"
        by_phase[phase] = max(by_phase[phase], live)
        self.timeline.add(live, phase)

    def leave(self, held: Held) -> None:
        """Count a storage no more."""
        if self.live == self.peak and self._at_peak is None:
            self._at_peak = dict(self.by_key)
        self.by_key[held.key] -= held.size
        self.live -= held.size

    def step(self, optimizer: int, most: int) -> list[dict[Key, int]]:
        """Note what is live after a step; return that of the last ``most`` steps of this optimizer."""
        self.steps.append(self.live)
        kept = self.kept[optimizer]
        kept.append({key: size for key, size in self.by_key.items() if size and key[2] != "optimizer state"})
        del kept[:-most]
        return kept

    def at_peak(self) -> dict[Key, int]:
        """Return what was live when most was."""
        return self._at_peak if self._at_peak is not None else dict(self.by_key)
