"""The table that ranks sit at: gives the turn to one at a time, and knows when nobody can go on.

A rank keeps its turn until it waits for others. The last rank comes first, so that what it counts on having been done
by rank 0, without waiting for that, is not there yet: any order of ranks that nothing holds is one that happens.
"""

from __future__ import annotations

import select
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from drygrad.worker.ranks.seat import Gone, Wire

Check = Callable[[Mapping[int, "Arrival"]], bool]
READY, WAITING, ENDED = "ready", "waiting", "ended"
_MOST = 20_000
"""So many arrivals are kept of a rank."""
_RESTS = 2_000
"""So often may ranks rest in a row without anything coming of it."""


@dataclass
class Arrival:
    """A rank that has come to a collective, or waits for a message."""

    rank: int
    op: str
    what: str
    """What the user's line calls."""
    group: list[int]
    made: int
    """Which group of these members it is, counted from 0."""
    chain: list[list[Any]]
    """The places of the user's functions at work, the outermost first."""
    stops: list[list[Any]]
    """The loops that the run of this rank has left early by then."""
    passes: dict[str, int]
    """How many passes the last begun of each loop of the target's file has made, by its line."""
    operands: dict[str, Any]
    """What must fit what the others bring."""

    @classmethod
    def of(cls, rank: int, message: dict[str, Any]) -> Arrival:
        """Return what a rank has said."""
        names = ("op", "what", "group", "made", "chain", "stops", "passes", "operands")
        return cls(rank, **{name: message[name] for name in names})


@dataclass
class _Chair:
    """A rank as the table sees it."""

    wire: Wire
    state: str = READY
    reply: tuple[dict[str, Any], list[bytes]] = field(default_factory=lambda: ({}, []))
    arrival: Arrival | None = None
    trace: list[Arrival] = field(default_factory=lambda: [])
    blocks: set[int] = field(default_factory=set[int])
    """The blocks of the target's file that have run on it."""
    wanted: tuple[int | None, str] | None = None
    """Whose message it waits for."""


@dataclass
class _Meeting:
    arrivals: dict[int, Arrival] = field(default_factory=lambda: {})
    parts: dict[int, list[bytes]] = field(default_factory=lambda: {})


class Table:
    """Serves ranks until all have ended, nobody can go on, or they disagree."""

    def __init__(self, wires: list[Wire]) -> None:
        self._chairs = [_Chair(wire) for wire in wires]
        self._order = deque(reversed(range(len(wires))))
        self._meetings: defaultdict[tuple[Any, ...], _Meeting] = defaultdict(_Meeting)
        self._mail: defaultdict[tuple[int, int, str], deque[list[bytes]]] = defaultdict(deque)
        self._rests = 0
        self.differing: dict[int, Arrival] | None = None
        """Those who came to one meeting with different things, where that has happened."""
        self.standing: dict[int, Arrival] | None = None
        """What each waiting rank waits for, where nobody can go on."""
        self.overdue = False

    @property
    def traces(self) -> list[list[Arrival]]:
        """What each rank has come to, in its order."""
        return [chair.trace for chair in self._chairs]

    @property
    def blocks(self) -> list[set[int]]:
        """Which blocks of the target's file each rank has come to."""
        return [chair.blocks for chair in self._chairs]

    def ended(self, rank: int) -> bool:
        """Say whether a rank has come to its end."""
        return self._chairs[rank].state == ENDED

    def serve(self, until: float, check: Check) -> None:
        """Give turns until there is nothing more to give; ``check`` says whether what came to a meeting differs."""
        while self.differing is None:
            rank = self._next()
            if rank is None:
                waiting = {n: chair.arrival for n, chair in enumerate(self._chairs) if chair.state == WAITING}
                self.standing = {n: arrival for n, arrival in waiting.items() if arrival is not None} or None
                return
            chair = self._chairs[rank]
            try:
                chair.wire.send(*chair.reply)
                while self._hears(rank, until, check):
                    pass
            except Gone:
                chair.state = ENDED
            if self.overdue or self._rests > _RESTS:
                self.overdue = True
                return

    def _next(self) -> int | None:
        return next((rank for rank in self._order if self._chairs[rank].state == READY), None)

    def _hears(self, rank: int, until: float, check: Check) -> bool:
        """Hear what the rank at work says; say whether it keeps its turn."""
        chair = self._chairs[rank]
        ready, _, _ = select.select([chair.wire.end], [], [], max(0.0, until - time.monotonic()))
        if not ready:
            self.overdue = True
            return False
        message, parts = chair.wire.receive()
        kind = message.pop("kind")
        if kind == "rest":
            self._rests += 1
            self._order.remove(rank)
            self._order.append(rank)
            chair.reply = {}, []
            return False
        self._rests = 0
        chair.blocks.update(message["blocks"])
        arrival = Arrival.of(rank, message)
        chair.trace[_MOST:] = []
        chair.trace.append(arrival)
        if kind == "post":
            self._post(rank, int(message["to"]), message["tag"], [bytes(part) for part in parts])
            return True
        chair.state, chair.arrival = WAITING, arrival
        if kind == "take":
            chair.wanted = message["from"], message["tag"]
            self._deliver(rank)
        else:
            self._meet(rank, arrival, [bytes(part) for part in parts], check)
        return False

    def _post(self, rank: int, to: int, tag: str, parts: list[bytes]) -> None:
        self._mail[rank, to, tag].append(parts)
        if self._chairs[to].wanted is not None:
            self._deliver(to)

    def _deliver(self, rank: int) -> None:
        """Give a rank that waits for a message the first that is there."""
        chair = self._chairs[rank]
        if chair.wanted is None:
            return
        source, tag = chair.wanted
        for sender in range(len(self._chairs)) if source is None else [source]:
            mail = self._mail[sender, rank, tag]
            if mail:
                chair.reply = {"from": sender}, mail.popleft()
                chair.state, chair.wanted, chair.arrival = READY, None, None
                return

    def _meet(self, rank: int, arrival: Arrival, parts: list[bytes], check: Check) -> None:
        key = (*arrival.group, "made", arrival.made)
        meeting = self._meetings[key]
        meeting.arrivals[rank], meeting.parts[rank] = arrival, parts
        if len(meeting.arrivals) < len(arrival.group):
            return
        del self._meetings[key]
        if check(meeting.arrivals):
            self.differing = meeting.arrivals
            return
        brought = [meeting.parts[member] for member in arrival.group]
        reply = {"counts": [len(each) for each in brought]}, [part for each in brought for part in each]
        for member in arrival.group:
            chair = self._chairs[member]
            chair.state, chair.arrival, chair.reply = READY, None, reply
