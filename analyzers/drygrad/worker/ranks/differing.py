"""What ranks have not done alike: in what two arrivals at one meeting differ, and whose call nobody else comes to."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence, Set
from math import prod
from typing import Any, cast

from drygrad.worker.lines import Lines
from drygrad.worker.ranks.table import Arrival
from drygrad.worker.run import Fault, Place
from drygrad.worker.texts import tree_of

WAITING, OPERANDS, DEVICE = "DG620", "DG621", "DG213"
_ENDED = "has finished"


def differ(arrivals: Mapping[int, Arrival]) -> bool:
    """Say whether those who came to one meeting differ."""
    return difference(arrivals) is not None


def difference(arrivals: Mapping[int, Arrival]) -> str | None:
    """Return in what those who came to one meeting differ; None where they do not."""
    ranks = sorted(arrivals)
    first = arrivals[ranks[0]]
    for rank in ranks[1:]:
        if why := _apart(first, arrivals[rank]):
            return why
    return _unlike_outputs([arrivals[rank] for rank in first.group])


def _apart(one: Arrival, other: Arrival) -> str | None:
    """Return in what two arrivals differ that must not."""
    if one.op != other.op:
        return "op"
    mine, its = one.operands, other.operands
    if mine.get("reduce") != its.get("reduce"):
        return "reduce"
    if mine.get("root") != its.get("root"):
        return "root"
    if _on_one_device(mine, its):
        return "device"
    if not mine.get("alike"):
        return None
    if [prod(shape) for shape in mine["shapes"]] != [prod(shape) for shape in its["shapes"]]:
        return "shapes"
    return "dtypes" if mine["dtypes"] != its["dtypes"] else None


def _on_one_device(mine: Mapping[str, Any], its: Mapping[str, Any]) -> bool:
    """Say whether two ranks use the same GPU where the backend wants one for each."""
    if not (mine["own_device"] and its["own_device"]):
        return False
    return mine["devices"][:1] == its["devices"][:1] and any(name.startswith("cuda") for name in mine["devices"][:1])


def _unlike_outputs(arrivals: Sequence[Arrival]) -> str | None:
    """Say whether somebody expects another number of elements than a member gives."""
    op = arrivals[0].op
    if op not in ("all_gather", "all_to_all") or arrivals[0].operands.get("alike"):
        return None
    for place, receiver in enumerate(arrivals):
        expected = receiver.operands["outputs"]
        if len(expected) != len(arrivals):
            continue
        for giver, shape in zip(arrivals, expected):
            given = giver.operands["shapes"][place if op == "all_to_all" else 0]
            if prod(given) != prod(shape):
                return "shapes"
    return None


class Comparison:
    """Says what the sequences of ranks come to, as faults."""

    def __init__(self, lines: Lines, traces: Sequence[Sequence[Arrival]], blocks: Sequence[Set[int]]) -> None:
        self._lines = lines
        self._blocks = blocks
        self._passed = [{key for arrival in trace for key in _keys(arrival)} for trace in traces]
        """By rank: the places of the functions that were at work whenever it came to a collective."""

    def of_waiting(self, waiting: Mapping[int, Arrival], ended: Sequence[int]) -> Fault:
        """Return the fault of ranks that wait for one another, or for one that has ended."""
        ranks = sorted(waiting)
        alone = self._alone(waiting) or waiting[ranks[0]]
        culprit = self._departure(alone)
        others = [waiting[rank] for rank in ranks if waiting[rank] is not alone]
        unlike = next((one for one in others if one.chain != alone.chain), None)
        if unlike is not None:
            then = f"rank {unlike.rank} waits in {_said(unlike)}"
        else:
            missing = next(iter(ended), None)
            then = f"rank {missing} {_ENDED}" if missing is not None else "no other rank joins"
        message = f"rank {alone.rank} waits in {_said(alone)}, but {then}; all ranks hang"
        return self._fault(WAITING, message, culprit, [alone, *([unlike] if unlike is not None else [])])

    def of_meeting(self, arrivals: Mapping[int, Arrival], why: str) -> Fault:
        """Return the fault of ranks that came to one meeting with different things."""
        first = arrivals[min(arrivals)]
        apart = [arrivals[n] for n in sorted(arrivals)[1:] if _apart(first, arrivals[n])]
        other = apart[0] if apart else arrivals[max(arrivals)]
        if why == "op" or (why == "shapes" and first.chain != other.chain):
            alone = self._alone({first.rank: first, other.rank: other}) or first
            peer = other if alone is first else first
            message = f"rank {alone.rank} is in {_said(alone)} while rank {peer.rank} is in {_said(peer)}"
            message += ": these do not match, so the ranks hang or exchange the wrong values"
            return self._fault(WAITING, message, self._departure(alone), [alone, peer])
        if why == "device":
            device = first.operands["devices"][0]
            message = f"rank {first.rank} and rank {other.rank} both use {device}, which NCCL rejects: "
            message += "no rank selects its own GPU with torch.cuda.set_device(local_rank)"
            return self._fault(DEVICE, message, _last(first), [])
        message = f"the ranks call {first.what} with different {_WORDS[why]}: {_of(first, why)} on rank {first.rank}, "
        message += f"{_of(other, why)} on rank {other.rank}"
        return self._fault(OPERANDS, message, _last(first), [other] if other.chain != first.chain else [])

    def _fault(self, code: str, message: str, at: Place | None, related: Sequence[Arrival]) -> Fault:
        fault = Fault(code, message, at)
        for arrival in related:
            place = _last(arrival)
            if place is not None and (at is None or (place.path, place.line) != (at.path, at.line)):
                fault.related.append((f"rank {arrival.rank} calls {arrival.what}", place))
        return fault

    def _alone(self, arrivals: Mapping[int, Arrival]) -> Arrival | None:
        """Return the one whose place no other rank has ever been at, of those that came to different ones."""
        for rank in sorted(arrivals):
            if self._new_to_others(arrivals[rank]) is not None:
                return arrivals[rank]
        return None

    def _new_to_others(self, arrival: Arrival) -> int | None:
        """Return which of the functions at work stands where another rank never came to a collective."""
        members = [rank for rank in arrival.group if rank != arrival.rank and rank < len(self._passed)]
        for depth, (path, line, *_) in enumerate(arrival.chain):
            block = self._block(path, line, arrival.rank)
            if block is not None and any(block not in self._blocks[rank] for rank in members):
                return depth
        keys = enumerate(_keys(arrival))
        return next((depth for depth, key in keys if any(key not in self._passed[rank] for rank in members)), None)

    def _block(self, path: str, line: int, rank: int) -> int | None:
        """Return the line at which the block begins that a line stands in, as a rank has told of it."""
        source = self._lines.source(path) if path == self._lines.path else None
        if source is None:
            return None
        begins = [start for start in starts_before(tree_of("\n".join(source)), line) if start in self._blocks[rank]]
        return begins[-1] if begins else None

    def _departure(self, arrival: Arrival) -> Place | None:
        """Return where the way to a call begins that another rank has not gone."""
        depth = self._new_to_others(arrival)
        return Place(*arrival.chain[depth]) if depth is not None else _last(arrival)


_WORDS = {"shapes": "numbers of elements", "dtypes": "dtypes", "reduce": "operations", "root": "sources"}


def _of(arrival: Arrival, why: str) -> str:
    operands = arrival.operands
    if why == "shapes":
        into = operands.get("outputs")
        return f"{operands['shapes'][0]}" + (f" (into {into})" if into and operands["shapes"] else "")
    value: Any = operands.get(why)
    return str(value if why in ("reduce", "root") else value[0]).replace("torch.", "")


def _said(arrival: Arrival) -> str:
    place = _last(arrival)
    return f"{arrival.what} (line {place.line})" if place is not None else arrival.what


def _keys(arrival: Arrival) -> list[tuple[Any, ...]]:
    """Return the ways to the functions at work: each with those around it."""
    found: list[tuple[Any, ...]] = []
    way: tuple[Any, ...] = ()
    for path, line, *_ in arrival.chain:
        way = (*way, path, line)
        found.append(way)
    return found


def starts_before(tree: ast.AST, line: int) -> list[int]:
    """Return where the statements begin, up to a line, of the innermost block that it stands in."""
    found: list[int] = []
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block: Any = getattr(node, name, None)
            statements = cast("list[ast.stmt]", block) if isinstance(block, list) else []
            if statements and statements[0].lineno <= line <= (statements[-1].end_lineno or 0):
                found = [statement.lineno for statement in statements if statement.lineno <= line]
    return found


def _last(arrival: Arrival) -> Place | None:
    return Place(*arrival.chain[-1]) if arrival.chain else None
