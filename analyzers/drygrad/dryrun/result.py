"""What a run has found, as the worker says it; read defensively, for the worker runs somebody else's code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

from drygrad.model import SEVERITIES, Severity

Outcome = Literal[
    "passed",
    "failed",
    "deadline",
    "no-inputs",
    "blocked",
    "unsupported",
    "missing-package",
    "cancelled",
    "crashed",
    "out-of-memory",
    "error",
]
"""How a run ended: ``failed`` by an error in the user's code, ``error`` by one of ours."""


@dataclass(frozen=True)
class Place:
    """A place in a file: lines from 1, columns from 0 in code points, where the interpreter knows them."""

    path: str
    line: int
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None


@dataclass(frozen=True)
class Fault:
    """One fault that a run has seen."""

    code: str
    message: str
    at: Place | None
    detail: str | None = None
    severity: Severity | None = None
    related: tuple[tuple[str, Place], ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Input:
    """One argument that the target was called with: a short description of its value, and where it came from."""

    name: str
    value: str
    source: str


@dataclass(frozen=True)
class ErrorInUserCode:
    """The error that ended the target."""

    type: str
    message: str
    at: Place | None
    stack: tuple[Place, ...] = ()


@dataclass(frozen=True)
class Shape:
    """What a name was bound to at a line, the first time; ``low`` and ``high`` are the range of its values."""

    line: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    device: str
    low: float | None = None
    high: float | None = None
    requires_grad: bool = False


@dataclass(frozen=True)
class Result:
    """What a run has found.

    ``data`` is the worker's whole answer; what the rest of drygrad decides by has fields of its own.
    ``blocks`` are the lines of the first statement of each block that ran in the target's file. ``reason`` says why a
    run could not be carried out, or ended as it did; ``tensors_on`` whether any tensor was on the device that it had.
    """

    outcome: Outcome
    device: str = "cpu"
    seed: int = 0
    seconds: float = 0.0
    faults: tuple[Fault, ...] = ()
    error: ErrorInUserCode | None = None
    inputs: tuple[Input, ...] = ()
    shapes: tuple[Shape, ...] = ()
    blocks: frozenset[int] = frozenset()
    backward: Literal["target", "probe", "none"] = "none"
    peak_bytes: int | None = None
    notes: tuple[str, ...] = ()
    reason: str | None = None
    tensors_on: Literal["cuda", "cpu"] | None = None
    output: str = ""
    torch: str | None = None
    interpreter: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Result:
        """Read the worker's answer; what is missing or strange keeps its default."""
        outcome = data.get("outcome")
        backward = data.get("backward")
        return cls(
            outcome=cast("Outcome", outcome) if outcome in get_args(Outcome) else "error",
            device=str(data.get("device", "cpu")),
            seed=_integer(data.get("seed")) or 0,
            seconds=_number(data.get("seconds")) or 0.0,
            faults=tuple(_fault(item) for item in _objects(data.get("faults"))),
            error=_error(data.get("error")),
            inputs=tuple(
                Input(str(i.get("name")), str(i.get("value")), str(i.get("source")))
                for i in _objects(data.get("inputs"))
            ),
            shapes=tuple(_shape(item) for item in _objects(data.get("shapes"))),
            blocks=frozenset(line for line in _list(data.get("blocks")) if isinstance(line, int)),
            backward=backward if backward in ("target", "probe") else "none",
            peak_bytes=_integer(_object(data.get("memory")).get("peak_bytes")),
            notes=tuple(str(note) for note in _list(data.get("notes"))),
            reason=_text(data.get("reason")),
            tensors_on=_kind_of_device(_object(data.get("memory")).get("device")),
            output=str(_object(data.get("output")).get("text", "")),
            torch=_text(data.get("torch")),
            interpreter=_text(data.get("interpreter")),
            data=data,
        )


def _kind_of_device(name: object) -> Literal["cuda", "cpu"] | None:
    return "cuda" if name == "cuda" else "cpu" if name == "cpu" else None


def _fault(data: Mapping[str, Any]) -> Fault:
    severity = data.get("severity")
    related = ((str(r.get("message", "")), _place(r.get("at"))) for r in _objects(data.get("related")))
    return Fault(
        code=str(data.get("code", "")),
        message=str(data.get("message", "")),
        at=_place(data.get("at")),
        detail=_text(data.get("detail")),
        severity=severity if severity in SEVERITIES else None,
        related=tuple((message, place) for message, place in related if place),
        facts=_object(data.get("facts")),
    )


def _error(data: object) -> ErrorInUserCode | None:
    error = _object(data)
    if not error:
        return None
    stack = (_place(item) for item in _objects(error.get("stack")))
    return ErrorInUserCode(
        str(error.get("type", "")),
        str(error.get("message", "")),
        _place(error.get("at")),
        tuple(place for place in stack if place),
    )


def _shape(data: Mapping[str, Any]) -> Shape:
    return Shape(
        line=_integer(data.get("line")) or 0,
        name=str(data.get("name", "")),
        shape=tuple(size for size in _list(data.get("shape")) if isinstance(size, int)),
        dtype=str(data.get("dtype", "")),
        device=str(data.get("device", "")),
        low=_number(data.get("low")),
        high=_number(data.get("high")),
        requires_grad=data.get("requires_grad") is True,
    )


def _place(data: object) -> Place | None:
    place = _object(data)
    line, path = _integer(place.get("line")), place.get("path")
    if line is None or not isinstance(path, str):
        return None
    return Place(path, line, *(_integer(place.get(key)) for key in ("column", "end_line", "end_column")))


def _object(data: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", data) if isinstance(data, Mapping) else {}


def _list(data: object) -> Sequence[Any]:
    return cast("Sequence[Any]", data) if isinstance(data, list) else ()


def _objects(data: object) -> list[Mapping[str, Any]]:
    return [item for item in map(_object, _list(data)) if item]


def _integer(data: object) -> int | None:
    return data if isinstance(data, int) and not isinstance(data, bool) else None


def _number(data: object) -> float | None:
    return float(data) if isinstance(data, (int, float)) and not isinstance(data, bool) else None


def _text(data: object) -> str | None:
    return data if isinstance(data, str) else None
