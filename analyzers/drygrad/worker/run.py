"""The words of the worker: places in the user's text, faults, the run, and what an instrument may hear."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from drygrad.worker.allowance import Imports
from drygrad.worker.cutting import Cuts

if TYPE_CHECKING:
    from drygrad.worker.departures import Departure
    from drygrad.worker.explain.samples import Delivered
    from drygrad.worker.instruments.construction import Given
    from drygrad.worker.instruments.graph import Cut
    from drygrad.worker.ledger import Held, Origin
    from drygrad.worker.lines import Instruction, Lines
    from drygrad.worker.ranks.group import Groups
    from drygrad.worker.watch import Op


Hook = Callable[..., None]
_FOLLOWED = ("DG1", "DG2", "DG4")
"""Families of rules whose faults are followed to where they begin: in graphs, by devices, with values."""
_STEPS = 4


class Place(NamedTuple):
    """A place in a file of the user's: lines from 1, columns from 0 in code points; the end is exclusive.

    Columns are known from Python 3.11 on.
    """

    path: str
    line: int
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None


@dataclass
class Fault:
    """One thing that went wrong, under the code of a rule, in one sentence with the values.

    ``at`` is the culprit's place; ``related`` the places that explain it; ``detail`` torch's own text; ``facts``
    what a fix may need to know. ``severity`` None leaves it to the rule.
    """

    code: str
    message: str
    at: Place | None
    detail: str | None = None
    severity: str | None = None
    related: list[tuple[str, Place]] = field(default_factory=lambda: [])
    facts: dict[str, Any] = field(default_factory=lambda: {})

    def as_json(self) -> dict[str, Any]:
        """Return the fault as it crosses the wire."""
        data = asdict(self)
        data["at"] = self.at._asdict() if self.at else None
        data["related"] = [{"message": message, "at": place._asdict()} for message, place in self.related]
        return data

    @classmethod
    def of_json(cls, data: dict[str, Any]) -> Fault:
        """Return the fault that another process of the run has told of."""
        at: dict[str, Any] | None = data["at"]
        fault = cls(data["code"], data["message"], Place(**at) if at is not None else None)
        fault.detail, fault.severity, fault.facts = data["detail"], data["severity"], data["facts"]
        fault.related = [(one["message"], Place(**one["at"])) for one in data["related"]]
        return fault


def _unknown(subject: Any) -> None:
    return None


def _stay() -> bool:
    return False


def _nowhere() -> None:
    return None


class Run:
    """What the instruments share during one run.

    ``result`` is the answer that crosses the wire; each instrument adds its own entry to it in ``finish``.
    ``op`` is the operation in flight, also after it has raised.
    """

    forgive: Callable[[Op, RuntimeError], Any] | None = None
    """Gives the result of an operation that was refused, where the run is to go on behind it."""
    built_with: Callable[[Any], Given | None] | None = None
    """Tells, in experiments, what the constructor of a module of the user's was called with."""
    world: int = 1
    """How many ranks a forecast is of, where no other takes part."""
    bucketing: bool = False
    """Whether ``DistributedDataParallel`` makes the buckets in which gradients are sent."""
    compiles: bool = False
    """Whether the program has asked torch's compiler for something."""
    ranks: Groups | None = None
    """Makes the process groups, where this process is one of several ranks."""
    test: str | None = None
    """The test that is being run, by pytest's name for it."""
    weights_absent = False
    """Whether weights that the program downloads are random in this run."""
    op: Op | None = None
    phase: str = "forward"
    step_call: Instruction | None = None
    """The user's call of the optimizer's step that is at work, where no other code of the user's has a part."""
    probing: bool = False
    """While the backward probe is at work, whose copies and waits are not the target's."""
    returned_at: Place | None = None
    """Where the target has returned, once it has."""
    rises: Callable[[], bool] | None = None
    """Says, in a forecast, whether each of the last steps has left more memory in use than the one before."""
    loops_stopped: int = 0
    """How many loops of the user's were ended before they would have ended: what comes after follows on no pass."""
    resting: Callable[[Any, Any, tuple[Any, ...]], bool] | None = None
    """Says, while a loop goes on whose passes are alike, whether an operation at a place is one of those."""
    slept: int | None = None
    """How many faults were known when operations were first executed without the mode that tells of them."""
    is_doubtful: bool = False
    """Whether what was found may follow on such an operation; a run that hears of all of them knows more of it."""
    transforms: int = 0
    """How many of torch's function transforms are at work; inside them the instruments hear of nothing."""

    def __init__(self, plan: dict[str, Any], lines: Lines) -> None:
        self.plan = plan
        self.lines = lines
        self.stood_in: dict[str, bool] = {}
        """What something stands in for, and whether its shapes, types and classes are those of the real one."""
        self.device: str = plan.get("device", "cpu")
        self.faults: list[Fault] = []
        self.notes: list[str] = []
        self.failures: list[dict[str, str]] = []
        """The instruments that have failed: which one, of what, and where in its own code."""
        self.result: dict[str, Any] = {}
        self.imports = Imports()
        self.cuts = Cuts(lines)
        """The loops that the run has left early."""
        self.origin_of: Callable[[Any], Origin | None] = _unknown
        """Tells what has made a tensor's values, where the instrument that follows memory is at work."""
        self.held_of: Callable[[Any], Held | None] = _unknown
        """Tells what is known of a tensor's memory, there, too."""
        self.allocated_at: Callable[[Any], Instruction | None] = _unknown
        """Tells, there, which line has made a tensor's memory: the copy's, of what was copied."""
        self.left_behind: Callable[[Any], Instruction | None] = _unknown
        """Tells, there, which line has moved something to the accelerator while it had this tensor at hand."""
        self.cut_of: Callable[[Any], Cut | None] = _unknown
        """Tells where a tensor without a graph, or what it was computed from, has left one."""
        self.departure_of: Callable[[int], Departure | None] = _unknown
        """Tells where what is computed from a leaf (by its identity) leaves the graph for good."""
        self.only_end_of: Callable[[int], Departure | None] = _unknown
        """Tells where what is computed from a leaf leaves the graph, if that is one place, for good or as a number."""
        self.left_at: Callable[[Instruction | None], Departure | None] = _unknown
        """Tells what has ended the graphs that a line of the user's has lost."""
        self.delivered: Callable[[Any], Delivered | None] = _unknown
        """Tells of what dataset a tensor of a batch has come."""
        self.made_at: Callable[[Any], Instruction | None] = _unknown
        """Tells where a module was made that holds parameters or buffers itself."""
        self.built_at: Callable[[Any], Instruction | None] = _unknown
        """Tells which line called the constructor of a module of any kind."""
        self.loader_at: Callable[[Any], Instruction | None] = _unknown
        """Tells where a loader of a dataset was made."""
        self.leave: Callable[[], bool] = _stay
        """Takes the mode away that tells of operations; says whether that could be done."""
        self.come_back: Callable[[], None] = _nowhere
        """Brings it back."""
        self.wake: Callable[[], None] = _nowhere
        """Ends a time in which operations are not told."""
        self.on_change: list[Callable[[], None]] = []
        """What to call when an instrument was switched off."""
        self._instruments: list[Instrument] = []
        self._hooks: dict[str, tuple[Hook, ...]] = {}

    def listen(self, instruments: list[Instrument]) -> None:
        """Say who hears of what happens, in this order."""
        self._instruments = list(instruments)
        self._hooks.clear()
        for changed in self.on_change:
            changed()

    def hooks(self, name: str) -> tuple[Hook, ...]:
        """Return the bound hooks of that name from the instruments that define one."""
        known = self._hooks.get(name)
        if known is None:
            known = self._hooks[name] = tuple(
                getattr(i, name) for i in self._instruments if getattr(type(i), name) is not getattr(Instrument, name)
            )
        return known

    def tell(self, name: str, *facts: Any) -> None:
        """Call the hooks of that name. Raises Stop, as a hook did."""
        self.call(self.hooks(name), *facts)

    def call(self, hooks: tuple[Hook, ...], *facts: Any) -> None:
        """Call methods of instruments: one that fails is the last of its instrument's. Raises Stop, as one did."""
        if not hooks:
            return
        from drygrad.worker.reading import quietly  # it imports torch, which may be missing or broken

        with quietly():
            for hook in hooks:
                try:
                    hook(*facts)
                except Stop:
                    raise
                except Exception as error:  # noqa: BLE001 - the user's call must go on, and the run says what failed
                    self.switch_off(hook, error)

    def switch_off(self, hook: Hook, error: BaseException) -> None:
        """Let an instrument whose hook has failed hear of nothing more in this run."""
        failed: Any = getattr(hook, "__self__", None)
        if failed in self._instruments:
            self.failed(failed, error)
            self.listen([i for i in self._instruments if i is not failed])

    def failed(self, instrument: Instrument, error: BaseException, how: str = "failed and was switched off") -> None:
        """Record that an instrument has failed, which is an error of ours: what it looks for goes unseen."""
        steps = traceback.extract_tb(error.__traceback__)[-_STEPS:]
        where = " < ".join(f"{os.path.basename(step.filename)}:{step.lineno}" for step in reversed(steps))
        line = (str(error).splitlines() or [""])[0]
        self.failures.append({"instrument": instrument.name, "error": f"{type(error).__name__}: {line}", "at": where})
        self.note(f"the instrument {instrument.name} {how}: {type(error).__name__}: {line}")

    def report(self, fault: Fault, error: BaseException | None = None) -> None:
        """Add a fault, perhaps of an error, unless the same kind was reported for the same line before."""
        left = self.cuts.before(error.__traceback__ if error is not None else None)
        if left is not None:
            fault.facts.setdefault("loop_left", left)
        if self.stood_in:
            name = min(self.stood_in, key=lambda each: self.stood_in[each])
            fault.facts.setdefault("stood_in", {"name": name, "exact": self.stood_in[name]})
        if self.test is not None:
            fault.facts.setdefault("test", self.test)
        where = fault.at and (fault.at.path, fault.at.line)
        if all(fault.code != f.code or where != (f.at and (f.at.path, f.at.line)) for f in self.faults):
            self.faults.append(fault)

    def judge(self, outcome: str) -> None:
        """Say whether something was found after the run has slept that may come from an operation of that time."""
        if self.slept is not None:
            since = (fault.code.startswith(_FOLLOWED) for fault in self.faults[self.slept :])
            self.is_doubtful = outcome == "failed" or any(since)

    def note(self, text: str) -> None:
        """Add a sentence to the notes of the run, once."""
        if text not in self.notes:
            self.notes.append(text)

    def stands_in(self, name: str, what: str, *, exact: bool) -> None:
        """Say what stands in for something that is not here; not exact where its shapes or classes are made up, too."""
        self.stood_in[name] = exact
        self.note(f"not on this machine: {name}; stand-in: {what}")

    def where(self, path: str | None, line: int) -> str:
        """Name a line: by its number in the target's file, with the file's name in another one."""
        if path in (None, self.lines.path):
            return f"line {line}"
        root = str(self.plan.get("root") or os.path.dirname(self.lines.path))
        return f"{os.path.relpath(str(path), root)}:{line}"

    def because(self, reason: str) -> None:
        """Say why the run ends as it does: a note, and the first thing that a user is told of it."""
        self.result["reason"] = reason
        self.note(reason)


class Stop(RuntimeError):
    """Raised by an instrument on purpose: it ends the user's call, for the operation would do worse."""


class Instrument:
    """Watches a run for one kind of fact. A subclass overrides the hooks it needs; the others cost nothing.

    Hooks run inside the user's calls: they must not change tensors, must not keep them alive, and raise nothing but
    Stop (an instrument that fails is switched off). Torch operations inside a hook are not seen by the instruments.
    Operations on tensors of a kind with a dispatch of its own, and inside function transforms, are not told.
    """

    name: ClassVar[str]
    only_to_compare: ClassVar[bool] = False
    """Whether it is at work only in runs that are compared with one another."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def start(self) -> None:
        """Prepare, in the run's process, before any of the user's code."""

    def wants(self, hook: str, func: Any, phase: str) -> bool:
        """Say whether ``before_op`` or ``after_op`` is to be told of an operation; asked once for each in a phase."""
        return True

    def before_op(self, op: Op) -> None:
        """Hear of an operation before it is executed."""

    def after_op(self, op: Op, result: Any) -> None:
        """Hear of an operation that was executed."""

    def passed_over(self) -> None:
        """Hear that an operation was executed of which nothing is told."""

    def backward_begins(self, roots: tuple[Any, ...], place: Place | None) -> None:
        """Hear of ``backward`` or ``autograd.grad`` before the engine starts at the tensors ``roots``."""

    def backward_ends(self, error: BaseException | None) -> None:
        """Hear that the engine is done, with the error it raised, if it did."""

    def differentiated(self, gradients: tuple[Any, ...], roots: tuple[Any, ...]) -> None:
        """Hear what ``autograd.grad`` returns of the tensors ``roots``, where it has recorded no graph of it."""

    def step_begins(self, optimizer: Any, place: Place | None) -> None:
        """Hear of an optimizer's ``step`` before it changes parameters."""

    def step_ends(self, optimizer: Any) -> None:
        """Hear that an optimizer's ``step`` is done."""

    def synchronised(self, kind: str, op: str, place: Place | None) -> None:
        """Hear of a wait of the host for the device, or a copy between them: ``sync``, ``h2d``, ``d2h``."""

    def assigned(self, line: int, name: str, value: Any) -> None:
        """Hear of a value that a statement of the user's text has bound to a name. It is computed with ``quietly``."""

    def begins(self, names: Mapping[str, Any], inputs: Mapping[str, Any]) -> None:
        """Hear of the names of the target's module, and of what the target is to be called with."""

    def returned(self, value: Any, place: Place | None) -> None:
        """Hear what the target has returned, before a backward probe."""

    def explain(self, error: BaseException, place: Place | None) -> Fault | None:
        """Return the fault behind an error that left the user's code, or that a handler there passed over."""
        return None

    def finish(self) -> None:
        """Add faults and the entry in ``run.result``; the user's code has ended, in whatever way."""
