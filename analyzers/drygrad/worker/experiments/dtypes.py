"""Dtypes follow the inputs: a target of float32 runs in float64 and float16, too, with its parameters in that dtype."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import torch

from drygrad.worker import errors, probe
from drygrad.worker.experiments.bench import Bench, Called, Inputs, modules
from drygrad.worker.experiments.copies import Copies
from drygrad.worker.experiments.held import held_tensors
from drygrad.worker.experiments.precise import require_single
from drygrad.worker.experiments.relation import NotTried, Relation
from drygrad.worker.explain.blame import is_loop
from drygrad.worker.explain.dtypes import MISMATCH
from drygrad.worker.explain.scene import Scene
from drygrad.worker.ledger import Origin
from drygrad.worker.naming import calls_of_error
from drygrad.worker.reading import dtype_text
from drygrad.worker.run import Fault, Instrument, Place, Run
from drygrad.worker.spelling import whole_text_of
from drygrad.worker.watch import Op

_COPY = "aten::_to_copy"
_TOO_LARGE = "DG409"
_DTYPES = (torch.float64, torch.float16)
_SHARE = 0.6
_WRITTEN = re.compile(r"\btorch\.float(32)?\b|\.float\(\)|\btorch\.FloatTensor\b")
"""How a text says float32 itself."""
_TAKEN_OVER = re.compile(r"dtype|\.to\(|type_as|\btype\(")
"""How a text says that a dtype is taken from elsewhere."""


class DtypesFollowInputs(Relation):
    """Calls the target with inputs and parameters of another dtype."""

    code: ClassVar[str] = "DG941"
    name: ClassVar[str] = "dtypes follow the inputs"
    rank: ClassVar[int] = 22

    def glance(self, given: Inputs) -> None:
        """Take what is of single precision throughout, and is told no dtype."""
        require_single(given, held_tensors(given.names, given.values))
        _require_untold(given)

    def examine(self, bench: Bench) -> Iterable[Fault]:
        """Yield what the target makes as float32 whatever it is given, where that fails or loses digits."""
        given = bench.inputs()
        self.glance(given)
        copies = Copies(given)
        copies.with_gradients = False
        held, why = False, "time ran out"
        for dtype in _DTYPES:
            if bench.spent > _SHARE:
                break
            try:
                faults = [*_Otherwise(bench, dtype).faults(copies.inputs({}, dtype))]
            except NotTried as reason:
                why = str(reason)
                continue
            yield from faults
            if faults:
                return
            held = True
        if not held:
            raise NotTried(why)


def _require_untold(given: Inputs) -> None:
    """Raise NotTried where an input says in which dtype to work: it need not be that of the others."""
    state = (vars(part) for module in modules(given) for part in module.modules())
    own = [getattr(given.owner, "__dict__", {})] if not isinstance(given.owner, torch.nn.Module) else []
    kept = (value for one in (*state, *own) for value in one.values())
    if any(isinstance(value, torch.dtype) for value in (*given.values, *kept)):
        raise NotTried("its caller chooses the dtype")


class _Otherwise:
    """One call in another dtype."""

    def __init__(self, bench: Bench, dtype: torch.dtype) -> None:
        self._bench = bench
        self._run = bench.run
        self._dtype = dtype
        self._with = f"with {dtype_text(dtype)} inputs"

    def faults(self, given: Inputs) -> Iterator[Fault]:
        """Yield what the call has to say. Raises NotTried where it fails for reasons of its own."""
        rounded = _Rounded(self._run, self._dtype)
        self._bench.watch(given, rounded)
        called = self._bench.call(given)
        if called.error is not None:
            yield self._failed(called)
            return
        # What is wider than its operands loses nothing, and what is of no floats is as good in any dtype.
        sources = [(made, at) for made, at in rounded.sources if self._is_unsaid(made)]
        for made, at in sources:
            yield self._fault(made, f"{self._with}, what is written into it is rounded", "it is written here", at)
            return
        yield from self._returned(called.returned)

    def _failed(self, called: Called) -> Fault:
        """Return the fault of a call that failed. Raises NotTried where the target has not chosen float32 itself."""
        assert called.error is not None
        said = f"{type(called.error).__name__}: {errors.first_line(called.error)}"
        why = NotTried(errors.shortened(f"{self._with} it ends with {said}"))
        fault = self._bench.explained(called)
        if fault is not None and fault.code == _TOO_LARGE:
            fault.message += f" ({self._with})"
            fault.severity = "info"
            return fault
        if not (isinstance(called.error, RuntimeError) and MISMATCH.search(errors.text_of(called.error))):
            raise why
        made = next((made for made in self._met(called) if self._is_own(made)), None)
        if made is None:
            raise why
        told = self._fault(made, f"{self._with}, it does not fit", "it fails here", called.place)
        told.detail = errors.text_of(called.error)
        return told

    def _met(self, called: Called) -> Iterator[Origin]:
        """Yield where the operands of float32 have their dtype from, where others have the dtype of the inputs."""
        assert called.error is not None
        calls = calls_of_error(self._run, called.error)
        if not calls:
            return
        operands = [operand.tensor for operand in Scene(self._run, called.error, called.place, calls).operands()]
        if not any(tensor.dtype is self._dtype for tensor in operands):
            return
        held = (self._run.held_of(tensor) for tensor in operands if tensor.dtype is torch.float32)
        yield from (one.roots.dtype for one in held if one is not None)

    def _is_own(self, made: Origin) -> bool:
        """Say whether the target has chosen float32 itself: by a factory's default, or in so many words.

        Its own words only speak of what is no float before, or is to be float16: to compute in float32 on purpose,
        and to convert that back, is right.
        """
        if not made.within or any(map(is_loop, made.lines)):
            return False
        text = self._text(made)
        if made.from_nothing and made.op != _COPY:
            return bool(_WRITTEN.search(text)) or self._is_unsaid(made)
        return made.op == _COPY and self._dtype is torch.float16 and bool(_WRITTEN.search(text))

    def _is_unsaid(self, made: Origin) -> bool:
        """Say whether a factory of the target's was told no dtype."""
        own = made.within and made.from_nothing and made.op != _COPY and not any(map(is_loop, made.lines))
        text = self._text(made) if own else ""
        return bool(text) and not _TAKEN_OVER.search(text)

    def _returned(self, returned: Any) -> Iterator[Fault]:
        """Yield the factory that has made what is returned wider than its inputs."""
        for tensor in probe.tensors(returned):
            if self._dtype is not torch.float16 or tensor.dtype is not torch.float32 or tensor.numel() < 2:
                continue
            held = self._run.held_of(tensor)
            if held is not None and not held.origin.from_nothing and self._is_unsaid(held.roots.dtype):
                yield self._fault(held.roots.dtype, f"{self._with}, float32 is returned")
                return

    def _fault(self, made: Origin, what: str, related: str = "", at: Place | None = None) -> Fault:
        place = self._run.lines.place(made.instruction)
        if place is None:
            raise NotTried(f"{self._with} it differs, but not at a line of the program")
        beside = [(related, at)] if at is not None and at[:2] != place[:2] else []
        message = f"created as float32, whatever the inputs are: {what}"
        return Fault(DtypesFollowInputs.code, message, place, severity="info", related=beside)

    def _text(self, made: Origin) -> str:
        return whole_text_of(self._run.lines, made.instruction)


class _Rounded(Instrument):
    """Takes note of where wider numbers are written into float32."""

    name: ClassVar[str] = "rounded"

    def __init__(self, run: Run, dtype: torch.dtype) -> None:
        super().__init__(run)
        self._dtype = dtype
        self.sources: list[tuple[Origin, Place | None]] = []

    def wants(self, hook: str, func: Any, phase: str) -> bool:
        """Ask for copies into what is there."""
        return hook == "before_op" and phase == "forward" and func._schema.name == "aten::copy_"

    def before_op(self, op: Op) -> None:
        """Take note of a copy that rounds."""
        into, values = op.args[:2]
        if into.dtype is not torch.float32 or values.dtype is not torch.float64 or self._dtype is not torch.float64:
            return
        held = self.run.held_of(into)
        if held is not None:
            self.sources.append((held.roots.dtype, self.run.lines.place(op.instruction)))
