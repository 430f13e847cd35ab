"""Padding is silent: what is real comes to the same with padded positions after it as without them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, ClassVar

import torch

from drygrad.worker.experiments.alike import Alike
from drygrad.worker.experiments.batches import ATTENTIONS, mapped
from drygrad.worker.experiments.bench import Bench, Inputs
from drygrad.worker.experiments.held import Held
from drygrad.worker.experiments.marks import Mark, Marks, may_mark, rows_of
from drygrad.worker.experiments.relation import NotTried, Relation
from drygrad.worker.experiments.trace import Step, Trace, is_noise
from drygrad.worker.probe import tensors
from drygrad.worker.reading import is_readable
from drygrad.worker.run import Fault

_OVER_ALL = frozenset(
    "mean sum max amax min amin std var var_mean std_mean logsumexp prod median softmax safe_softmax log_softmax "
    "scaled select slice index gather mse l1 smooth nll binary cross adaptive avg".split()
)
"""What takes all positions together, or the last; others let padding in at the border of what is real."""
_RECURRENT = ("aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu")


class PaddingIsSilent(Relation):
    """Calls the target with sequences that are padded, and with the same ones that end where they are real."""

    code: ClassVar[str] = "DG927"
    name: ClassVar[str] = "padding is silent"
    rank: ClassVar[int] = 24

    def examine(self, bench: Bench) -> Iterable[Fault]:
        """Yield the first operation that lets padding into what is real."""
        given = bench.inputs()
        if isinstance(given.owner, torch.nn.Module):
            given.owner.eval()
        named = zip(given.names, given.values)
        held = [Held(name, value) for name, value in named if isinstance(value, torch.Tensor) and is_readable(value)]
        if not any(map(may_mark, held)):
            raise NotTried("none of its inputs are marked as padded")
        marks = Marks(bench.run, held)
        bench.listen(marks)
        with torch.no_grad():
            bench.must_pass(_copied(given))
        found = marks.found()
        if not found:
            raise NotTried("none of its inputs are marked as padded")
        reasons: list[str] = []
        seen: set[tuple[int, int]] = set()
        for mark in found:
            try:
                axes = _axes(mark, held)
                if axes not in seen:
                    seen.add(axes)
                    yield from _faults(bench, given, marks, mark)
            except NotTried as reason:
                reasons.append(str(reason))
        if len(reasons) == len(found):
            raise NotTried(reasons[0])


def _faults(bench: Bench, given: Inputs, marks: Marks, mark: Mark) -> list[Fault]:
    """Return what sequences show that are padded alike, and, of lengths, those beside one without padding.

    A program that goes by the greatest length has no padding in the one, and may need one of full length in the other.
    """
    try:
        found = [*_Padding(bench, given, marks, mark).faults()]
    except NotTried:
        if mark.kind != "lengths":
            raise
        return [*_Padding(bench, given, marks, mark, uneven=True).faults()]
    if found or mark.kind != "lengths":
        return found
    with suppress(NotTried):
        found += _Padding(bench, given, marks, mark, uneven=True).faults()
    return found


def _copied(given: Inputs) -> Inputs:
    return mapped(given, lambda tensor: tensor.detach().clone())


class _Padding:
    """The inputs of a target with all sequences of one length padded alike, and without padding.

    Where they are ``uneven``, the first is not padded with the others, and left out without padding.
    """

    def __init__(self, bench: Bench, given: Inputs, marks: Marks, mark: Mark, *, uneven: bool = False) -> None:
        held = marks.inputs
        axes = _axes(mark, held)
        self._bench, self._given, self._mark = bench, given, mark
        self._ids, self._held = marks.ids, held
        self._samples, self._size = axes
        self._real = self._size - max(1, self._size // 3)
        self._uneven = uneven
        if self._size < 2 or self._samples == self._size or (uneven and self._samples < 2):
            raise NotTried("its sequence dimension cannot be told from its batch dimension")
        self._marks = {one.held.name: one for one in marks.found() if one.kind == "ids" or _axes(one, held) == axes}

    def faults(self) -> Iterator[Fault]:
        """Yield what is not the same without the padding. Raises NotTried."""
        short, brief = self._traced(self._with(self._trimmed))
        padded = self._with(self._padded)
        long, whole = self._traced(padded)
        alike = self._alike()
        compared = [(one, alike.equal(one, other)) for one, other in zip(tensors(long), tensors(short))]
        if all(verdict is None for _, verdict in compared):
            raise NotTried("none of its results can be compared without the padding")
        changed = [one for one, verdict in compared if verdict is False]
        if changed:
            behind = whole.behind(changed)
            step = self._culprit(whole, brief, {n: behind[n] for n in behind.keys() & whole.after(padded.tensors())})
            yield self._told(step, self._severity(step) if compared[0][1] is False else "info")

    def _alike(self) -> Alike:
        return Alike(self._size, self._real, self._samples if self._uneven else None)

    def _culprit(self, whole: Trace, brief: Trace, behind: dict[int, list[int]]) -> Step:
        """Return the first of the steps behind a changed result that padding changes. Raises NotTried."""
        alike, known = self._alike(), {step.key: step for step in brief.steps}
        verdicts: dict[int, list[bool | None]] = {}
        for number in sorted(behind):
            step, other = whole.steps[number], known.get(whole.steps[number].key)
            if other is not None and len(other.results) == len(step.results):
                verdicts[number] = [alike.equal(step.results[n], other.results[n]) for n in behind[number]]
        for number, verdict in verdicts.items():
            if False in verdict and not (self._uneven and _comes_back(whole, number, verdicts)):
                return whole.steps[number]
        raise NotTried("padding changes its results, but not at a line of the program")

    def _told(self, step: Step, severity: str) -> Fault:
        place = self._bench.run.lines.place(step.instruction)
        if place is None:
            raise NotTried("padding changes its results, but not at a line of the program")
        count, name = self._size - self._real, self._mark.held.name
        says = f"`{name}` has a class for padding" if self._mark.kind == "ids" else f"`{name}` marks them"
        message = (
            f"padding affects the result here: with {count} padded position{'s' * (count > 1)} after {self._real} real "
            f"ones it differs from the result without padding, although {says}"
        )
        return Fault(PaddingIsSilent.code, message, place, severity=severity)

    def _severity(self, step: Step) -> str:
        word = step.name.partition("::")[2].strip("_")
        layers = step.name in ATTENTIONS or step.name.startswith(_RECURRENT)
        takes_all = layers or word.partition("_")[0] in _OVER_ALL
        sure = self._mark.kind != "ids" or self._mark.shown
        return "warning" if takes_all and sure and not (self._bench.invented or self._bench.unprepared) else "info"

    def _traced(self, given: Inputs) -> tuple[Any, Trace]:
        trace = Trace(self._bench.run)
        self._bench.listen(trace)
        with torch.no_grad():
            returned = self._bench.must_pass(given)
        if trace.full:
            raise NotTried("too large to compare")
        if any(map(is_noise, trace.steps)):
            raise NotTried("it draws random numbers")
        return returned, trace

    def _with(self, change: Any) -> Inputs:
        values = {id(held.tensor): change(held) for held in self._held if held.tensor.dim()}
        return mapped(self._given, lambda tensor: values.get(id(tensor), tensor))

    def _trimmed(self, held: Held) -> torch.Tensor:
        """Return an input without the padded positions."""
        tensor = self._padded(held)
        for axis in self._positions(held.tensor):
            tensor = tensor.narrow(axis, 0, self._real)
        batch = self._batch(tensor)
        if self._uneven and batch is not None:
            tensor = tensor.narrow(batch, 1, self._samples - 1)
        return tensor.clone()

    def _padded(self, held: Held) -> torch.Tensor:
        """Return an input of which the last positions are padding."""
        tensor = self._filled(held)
        batch = self._batch(tensor)
        if self._uneven and batch is not None:
            whole = self._whole(held)
            tensor.select(batch, 0).copy_(whole.select(batch, 0))
        return tensor

    def _whole(self, held: Held) -> torch.Tensor:
        """Return an input without any padding."""
        mark = self._marks.get(held.name)
        if mark is None or mark.kind == "ids":
            return held.tensor.detach()
        return torch.full_like(held.tensor, self._size if mark.kind == "lengths" else 1 - mark.padding)

    def _batch(self, tensor: torch.Tensor) -> int | None:
        """Return the axis of the samples."""
        return next((axis for axis, size in enumerate(tensor.shape[:2]) if size == self._samples), None)

    def _filled(self, held: Held) -> torch.Tensor:
        """Return an input whose last positions have zeros, and what masks and classes have for padding."""
        tensor, mark = held.tensor.detach().clone(), self._marks.get(held.name)
        if mark is not None and mark.kind == "lengths":
            return tensor.fill_(self._real)
        axes = self._positions(tensor)
        if len(axes) != 1:
            return tensor
        if mark is not None and mark.kind == "mask":
            tensor.fill_(1 - mark.padding)
        last = tensor.narrow(axes[0], self._real, self._size - self._real)
        if mark is not None and mark.kind == "mask":
            last.fill_(mark.padding)
        elif held.name in self._ids:
            last.fill_(self._class_of(held))
        elif tensor.is_floating_point():
            last.zero_()
        else:
            raise NotTried(f"how `{held.name}` is padded is unknown")
        return tensor

    def _class_of(self, held: Held) -> int:
        """Return the class that stands for padding: the embedding's, else what its last position has where padded."""
        known = self._ids[held.name]
        rows = rows_of(self._mark.held.tensor) if self._mark.kind == "mask" else None
        if known < 0 and rows is not None and rows.shape == held.tensor.shape:
            there = held.tensor[rows == self._mark.padding]
            known = int(there[0]) if there.numel() else known
        return max(known, 0)

    def _positions(self, tensor: torch.Tensor) -> list[int]:
        """Return the axes of an input that count positions: both of a map between them, else one beside the samples."""
        size = self._size
        if tensor.dim() > 1 and tuple(tensor.shape[-2:]) == (size, size):
            return [tensor.dim() - 2, tensor.dim() - 1]
        if self._samples not in tensor.shape[:2] or tensor.dim() < 2:
            return []
        return [axis for axis, one in enumerate(tensor.shape) if one == size][:1]


def _comes_back(whole: Trace, number: int, verdicts: dict[int, list[bool | None]]) -> bool:
    """Say whether a result is equal again in what is computed from it: sorting by length only changes the order."""
    computed = {*whole.steps[number].made}
    for later in range(number + 1, len(whole.steps)):
        step = whole.steps[later]
        if not computed.isdisjoint(step.read):
            computed.update(step.made)
            if True in verdicts.get(later, ()) and step.results[0].is_floating_point():
                return True
    return False


def _axes(mark: Mark, inputs: list[Held]) -> tuple[int, int]:
    """Return how many samples a mark is of, and how many positions each has. Raises NotTried."""
    tensor = mark.held.tensor
    if mark.kind != "lengths":
        rows = rows_of(tensor)
        assert rows is not None
        return rows.shape[0], rows.shape[1]
    samples, longest = tensor.shape[0], int(tensor.max())
    for held in inputs:
        shape = held.tensor.shape
        if held.tensor is not tensor and len(shape) > 1 and samples in shape[:2]:
            size = shape[1] if shape[0] == samples else shape[0]
            if size >= longest:
                return samples, size
    raise NotTried("nothing shows which dimension its lengths belong to")
