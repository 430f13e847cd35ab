"""What holds at one point of a function: its names, the modes, and what autograd has kept so far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from drygrad.static.facts.events import Saved
from drygrad.static.facts.values import UNKNOWN, Tensor, Value, join

Autocast: TypeAlias = str | None
"""``off``, or autocast's dtype (``float16``, ``bfloat16``; ``on``: one of them); None: unknown."""


OFF: Autocast = "off"


@dataclass(slots=True)
class State:
    """The state at one program point.

    ``names`` holds variables and, by their dotted text, attributes that were assigned in this function (``self.fc``).
    ``grad`` is the grad mode (None: it depends on the path). ``saved`` maps a storage to who kept its content.
    """

    names: dict[str, Value]
    grad: bool | None = True
    autocast: Autocast = "off"
    saved: dict[object, tuple[Saved, ...]] = field(default_factory=dict[object, tuple[Saved, ...]])

    def copy(self) -> State:
        """Return a state that may go another path."""
        return State(dict(self.names), self.grad, self.autocast, dict(self.saved))

    def joined(self, other: State | None) -> State:
        """Return what holds where this path and another meet; None is a path that does not arrive."""
        if other is None or other is self:
            return self
        names = {
            name: value if name not in other.names else join(value, other.names[name])
            for name, value in self.names.items()
        }
        for name in names.keys() ^ other.names.keys():
            names[name] = _one_sided(name, names.get(name, other.names.get(name, UNKNOWN)))
        saved = dict(self.saved)
        for storage, entries in other.saved.items():
            mine = saved.get(storage, ())
            saved[storage] = mine + tuple(entry for entry in entries if entry not in mine)
        return State(
            names,
            self.grad if self.grad == other.grad else None,
            self.autocast if self.autocast == other.autocast else None,
            saved,
        )

    def tells_as_much_as(self, other: State) -> bool:
        """Say whether two states are equal."""
        modes = self.grad == other.grad and self.autocast == other.autocast
        return modes and self.names == other.names and self.saved == other.saved

    def without_changes_since(self, older: State) -> State:
        """Return what an older state and this one agree on; the rest is unknown."""
        names = {name: _unchanged(older.names.get(name, UNKNOWN), value) for name, value in self.names.items()}
        saved = {storage: kept for storage, kept in self.saved.items() if older.saved.get(storage) == kept}
        return replace(self, names=names, saved=saved)

    def without(self, forgotten: Iterable[str]) -> State:
        """Return the state in which some names, and their attributes, may stand for anything."""
        roots = frozenset(forgotten)
        names = {
            name: UNKNOWN if name in roots or name.partition(".")[0] in roots else value
            for name, value in self.names.items()
        }
        return replace(self, names=names, saved={})


def _unchanged(older: Value, newer: Value) -> Value:
    """Return what has not changed: of a tensor its kind, where that has not."""
    if older == newer:
        return newer
    if not isinstance(older, Tensor) or not isinstance(newer, Tensor):
        return UNKNOWN
    kept = join(older, newer)
    assert isinstance(kept, Tensor)
    return Tensor(dtype=kept.dtype, device=kept.device, requires_grad=kept.requires_grad, leaf=kept.leaf)


def _one_sided(name: str, value: Value) -> Value:
    """A name bound on one path only can be used only where that path was taken; an attribute may be older."""
    return UNKNOWN if "." in name else value


def join_states(first: State | None, second: State | None) -> State | None:
    """Join two paths of which each may not arrive."""
    if first is None:
        return second
    return first.joined(second)
