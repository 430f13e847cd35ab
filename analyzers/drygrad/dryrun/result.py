"""What a run has found, made of the worker's answer once that has passed the wire's schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from drygrad.dryrun import wire
from drygrad.dryrun.wire import Outcome
from drygrad.model import Severity

__all__ = ["Coverage", "ErrorInUserCode", "Fault", "Input", "Outcome", "Place", "Result", "Shape", "Tried"]


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
class Tried:
    """What came of trying a relation after a run that passed; ``why`` says what kept one from being tried."""

    code: str
    name: str
    outcome: Literal["held", "not-tried", "broken"]
    why: str = ""
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """Return it as users read it."""
        return {**asdict(self), "why": self.why or None}


@dataclass(frozen=True)
class Coverage:
    """The lines of a target on which a statement begins: those that ran, and those that did not."""

    ran: frozenset[int]
    missed: frozenset[int]

    @property
    def lines(self) -> int:
        """How many there are."""
        return len(self.ran) + len(self.missed)

    @property
    def is_partial(self) -> bool:
        """Whether half of the target, or more, has not run."""
        return bool(self.missed) and len(self.missed) >= len(self.ran)

    def moved(self, move: Callable[[int], int]) -> Coverage:
        """Return it as it speaks of a text in which the lines have other numbers."""
        return Coverage(frozenset(map(move, self.ran)), frozenset(map(move, self.missed)))

    def __or__(self, other: Coverage) -> Coverage:
        """Return what two runs have covered together."""
        ran = self.ran | other.ran
        return Coverage(ran, (self.missed | other.missed) - ran)

    def said(self) -> str:
        """Return it in words; nothing where all has run."""
        return f"{len(self.ran)} of {self.lines} lines" if self.missed else ""


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
    tried: tuple[Tried, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    coverage: Coverage | None = None
    """How much of the target has run, where it ran to its end."""

    @property
    def own_seconds(self) -> float:
        """How long the run has taken, but for its imports."""
        others = (float(self.data.get(name) or 0.0) for name in ("import_seconds", "way_seconds"))
        return self.seconds - sum(others)

    def files(self) -> set[str]:
        """Return the files in which the run says that something is."""
        faults = (place for fault in self.faults for place in (fault.at, *(place for _, place in fault.related)))
        stack = (self.error.at, *self.error.stack) if self.error is not None else ()
        return {place.path for place in (*faults, *stack) if place is not None}

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Result:
        """Read the answer of a run; what it does not say has its default. Raises Malformed."""
        said = wire.RESULT(dict(data))
        return cls(
            outcome=said["outcome"],
            device=said.get("device", "cpu"),
            seed=said.get("seed", 0),
            seconds=float(said.get("seconds", 0.0)),
            faults=tuple(map(_fault, said.get("faults", ()))),
            error=_error(said.get("error")),
            inputs=tuple(Input(**given) for given in said.get("inputs", ())),
            shapes=tuple(map(_shape, said.get("shapes", ()))),
            blocks=frozenset(said.get("blocks", ())),
            backward=said.get("backward", "none"),
            peak_bytes=said.get("memory", {}).get("peak_bytes"),
            notes=tuple(said.get("notes", ())),
            reason=said.get("reason"),
            tensors_on=said.get("memory", {}).get("device"),
            output=said.get("output", {}).get("text", ""),
            torch=said.get("torch"),
            interpreter=said.get("interpreter"),
            tried=tuple(Tried(**entry) for entry in said.get("experiments", ())),
            data=said,
        )


def _fault(data: Mapping[str, Any]) -> Fault:
    related = tuple((one["message"], Place(**one["at"])) for one in data.get("related", ()))
    return Fault(
        data["code"],
        data["message"],
        _place(data["at"]),
        data.get("detail"),
        data.get("severity"),
        related,
        data.get("facts", {}),
    )


def _error(data: Mapping[str, Any] | None) -> ErrorInUserCode | None:
    if data is None:
        return None
    places = ({name: part for name, part in frame.items() if name != "function"} for frame in data.get("stack", ()))
    stack = tuple(Place(**place) for place in places)
    return ErrorInUserCode(data["type"], data["message"], _place(data["at"]), stack)


def _shape(data: Mapping[str, Any]) -> Shape:
    fields: dict[str, Any] = {**data, "shape": tuple(data["shape"])}
    return Shape(**fields)


def _place(data: Mapping[str, Any] | None) -> Place | None:
    return Place(**data) if data is not None else None
