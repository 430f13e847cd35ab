"""What a call computes, operation by operation, and where two calls part that agree until then."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import torch

from drygrad.worker.lines import Instruction
from drygrad.worker.reading import at_hand, is_readable, quietly, storage_of
from drygrad.worker.run import Instrument, Run
from drygrad.worker.watch import Op

MOST_STEPS = 20_000
_MOST_BYTES = 512 << 20
_ELEMENTS = 1 << 15
"""Of a larger result only so many elements are kept, at equal distances."""
_UNWRITTEN = frozenset(f"aten::{name}" for name in ("empty", "empty_like", "empty_strided", "new_empty", "resize_"))
"""What makes memory that nothing was written to yet."""
_DROPOUTS = frozenset(
    code
    for code in (getattr(f, "__code__", None) for f in vars(torch.nn.functional).values())
    if code is not None and "dropout" in code.co_name
)
_RELATIVE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 5e-2}
"""What another order of a sum, or another kernel, may make of a result, of the largest number in it."""

Key = tuple[Any, str, int]
"""The user's line, the operation, and how often it had come there."""


@dataclass
class Step:
    """One operation: what it made, and which steps had made its operands."""

    key: Key
    instruction: Instruction | None
    name: str
    results: list[torch.Tensor]
    """Copies on the host."""
    made_of: list[int]
    """The numbers of the steps whose results were its operands."""
    shapes: list[tuple[int, ...]] = field(default_factory=lambda: [])
    """The shapes of its operands."""
    arguments: tuple[Any, ...] = ()
    """The arguments that are no tensors, in their order; None for those that are."""
    drops: bool = False
    """Whether torch's dropout has called it."""
    drops_weights: bool = False
    """Whether it is an attention that drops weights itself."""
    written: list[int] = field(default_factory=lambda: [])
    """The memory that it has written to, of what was there before, by identity."""
    made: list[int] = field(default_factory=lambda: [])
    """The memory of each of its results."""
    read: list[int] = field(default_factory=lambda: [])
    """The memory of its operands."""


class TooMuch(Exception):
    """A call computes more than can be kept for a comparison."""


class Trace(Instrument):
    """Keeps what each operation of a call has made."""

    name: ClassVar[str] = "trace"

    def __init__(self, run: Run, keep: int | None = None) -> None:
        super().__init__(run)
        self._keep = keep
        """A size whose axes are kept whole, whatever is left out of the others."""
        self.steps: list[Step] = []
        self.full = False
        """Whether there was more than is kept."""
        self._bytes = 0
        self._seen: Counter[tuple[Any, str]] = Counter()
        self._makers: dict[int, int] = {}
        self._alive: list[Any] = []
        """What was made, so that its memory is not given to something else."""

    def after_op(self, op: Op, result: Any) -> None:
        """Keep a copy of what an operation has made."""
        made = [t for t in _flat(result) if is_readable(t)]
        if not made or self.full or op.name in _UNWRITTEN:
            return
        where = op.instruction
        place = (id(where.code), where.offset) if where is not None else None
        count = self._seen[place, op.name] = self._seen[place, op.name] + 1
        operands = op.tensors()
        made_of = [self._makers[key] for key in map(memory_of, operands) if key in self._makers]
        with quietly():
            copies = [thinned(at_hand(t).detach(), self._keep).clone() for t in made]
        self._bytes += sum(t.numel() * t.element_size() for t in copies)
        self.full = self._bytes > _MOST_BYTES or len(self.steps) >= MOST_STEPS
        plain = tuple(None if isinstance(a, torch.Tensor) else a for a in (*op.args, *op.kwargs.values()))
        shapes = [() if t.is_nested else tuple(t.shape) for t in operands]
        step = Step((place, op.name, count), where, op.name, copies, made_of, shapes, plain)
        step.drops = _is_in_dropout() if op.name in _DRAWING else False
        step.drops_weights = "scaled" in op.name and bool(op.argument("dropout_p"))
        step.written = [*map(memory_of, _overwritten(op))]
        step.made, step.read = [*map(memory_of, made)], [*map(memory_of, operands)]
        self.steps.append(step)
        for tensor in made:
            self._makers[memory_of(tensor)] = len(self.steps) - 1
            self._alive.append(storage_of(tensor))

    def behind(self, results: Iterable[torch.Tensor]) -> dict[int, list[int]]:
        """Return the steps that some tensors are made of, and which of their results lead there."""
        wanted = {*map(memory_of, results)}
        found: dict[int, list[int]] = {}
        for number in reversed(range(len(self.steps))):
            step = self.steps[number]
            leading = [position for position, memory in enumerate(step.made) if memory in wanted]
            if leading:
                found[number] = leading
                wanted.update(step.read)
        return found

    def after(self, operands: Iterable[torch.Tensor]) -> set[int]:
        """Return the steps whose results are computed from some tensors."""
        known, found = {*map(memory_of, operands)}, set[int]()
        for number, step in enumerate(self.steps):
            if not known.isdisjoint(step.read):
                found.add(number)
                known.update(step.made)
        return found


def thinned(tensor: torch.Tensor, keep: int | None) -> torch.Tensor:
    """Return some elements of a large result; the axes of one size have all of theirs."""
    while tensor.numel() > _ELEMENTS:
        sizes = [(size, axis) for axis, size in enumerate(tensor.shape) if size != keep and size > 1]
        if not sizes:
            return tensor
        _, axis = max(sizes)
        tensor = tensor[(slice(None),) * axis + (slice(None, None, 2),)]
    return tensor


_DRAWING = frozenset({"aten::bernoulli_", "aten::bernoulli", "aten::native_dropout", "aten::rrelu_with_noise"})
_NOISE = frozenset(
    "bernoulli multinomial normal uniform random rand randn randint randperm poisson exponential".split()
)


def is_noise(step: Step) -> bool:
    """Say whether an operation draws random numbers."""
    name = step.name.partition("::")[2].strip("_").partition("_")[0]
    return step.name in _DRAWING or name in _NOISE or step.drops_weights


def _is_in_dropout() -> bool:
    frame: Any = sys._getframe(2)
    while frame is not None:
        if frame.f_code in _DROPOUTS:
            return True
        frame = frame.f_back
    return False


def _overwritten(op: Op) -> Iterator[torch.Tensor]:
    """Yield the tensors that an operation writes to; a batch norm its running statistics, of which no schema tells."""
    given = {a.name: v for a, v in zip(op.func._schema.arguments, op.args)}
    for argument in op.func._schema.arguments:
        value = given.get(argument.name, op.kwargs.get(argument.name))
        writes = argument.alias_info is not None and argument.alias_info.is_write
        running = "batch_norm" in op.name and argument.name.startswith("running_")
        if isinstance(value, torch.Tensor) and (writes or running):
            yield value


def memory_of(tensor: torch.Tensor) -> int:
    """Return what tells a tensor's memory from all other; 0 where it has none."""
    storage: Any = storage_of(tensor)
    return storage._cdata if storage is not None else 0


def _flat(result: Any) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    items = cast("list[Any]", result) if isinstance(result, (list, tuple)) else []
    return [item for item in items if isinstance(item, torch.Tensor)]


def aligned(one: Trace, other: Trace) -> Iterator[tuple[int, Step, Step]]:
    """Yield the steps that both have, in the order of the first, with their numbers there."""
    known = {step.key: step for step in other.steps}
    for number, step in enumerate(one.steps):
        found = known.get(step.key)
        if found is not None:
            yield number, step, found


Part = Callable[[torch.Tensor], "list[torch.Tensor]"]
"""Takes the part of a result that two calls must have in common, in each of the ways it may be laid out in there."""


def whole(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Take all of a result."""
    return [tensor]


def first_parting(one: Trace, other: Trace, part: Part = whole) -> int | None:
    """Return the number of the first step whose results differ though all before agree; None where none does."""
    return next(partings(one, other, part), None)


def partings(one: Trace, other: Trace, part: Part = whole) -> Iterator[int]:
    """Yield the numbers of the steps whose results differ."""
    for number, mine, theirs in aligned(one, other):
        if any(not agree(a, b, part) for a, b in zip(mine.results, theirs.results)):
            yield number


def agree(one: torch.Tensor, other: torch.Tensor, part: Part = whole) -> bool:
    """Say whether two results are equal, but for what another kernel may do; one that is not finite says nothing."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    with quietly():
        pairs = [*zip(part(one), part(other))]
        scale = max(_greatest(one), _greatest(other)) if pairs else 0.0
        return not pairs or any(_equal(mine, theirs, scale) for mine, theirs in pairs)


def _equal(mine: torch.Tensor, theirs: torch.Tensor, scale: float) -> bool:
    if not (mine.is_floating_point() or mine.is_complex()):
        return bool((mine == theirs).all())
    if mine.numel() == 0 or not (bool(mine.isfinite().all()) and bool(theirs.isfinite().all())):
        return True
    apart: Any = (mine - theirs).abs().max()
    return bool(apart <= _RELATIVE.get(mine.dtype, 1e-4) * max(scale, 1e-6))


def _greatest(tensor: torch.Tensor) -> float:
    """Return the greatest finite number in a tensor."""
    if not tensor.numel() or not (tensor.is_floating_point() or tensor.is_complex()):
        return 0.0
    return float(tensor.abs().nan_to_num(0.0, posinf=0.0).max())
