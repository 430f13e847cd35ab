"""Micro-batches as they add up: which losses go into a step, with what weight, and what changes gradients between."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NamedTuple

import torch

from drygrad.worker import graphs
from drygrad.worker.lines import Instruction
from drygrad.worker.reading import address_of, at_hand, is_plain, is_readable
from drygrad.worker.run import Instrument, Place, Run
from drygrad.worker.watch import Op

_MEAN = 1
"""What torch calls the reduction ``mean`` in what a loss's node keeps."""
_LEAVES = 64
_SCALES = frozenset(
    f"aten::{name}" for name in "mul_ _foreach_mul_ div_ _foreach_div_ clamp_ _foreach_clamp_min_".split()
)


@dataclass
class Mean:
    """One mean in a loss: how much it is a mean over, and how much of the loss it is."""

    line: Instruction | None
    over: float
    """The elements, or of a loss over classes the weights of the targets that are not ignored."""
    elements: float
    weighted: bool
    share: float = 0.0
    """The derivative of the loss with respect to the mean: 0.25 where it was divided by 4."""


@dataclass
class Pass:
    """One ``backward`` that has added to gradients."""

    place: Place
    means: list[Mean]


class Cut(NamedTuple):
    """What a micro-batch has taken of an input, by the first axis."""

    name: str
    start: int
    end: int
    whole: int
    """How long the input is."""
    line: Instruction | None


@dataclass
class Group:
    """What comes between two steps."""

    passes: list[Pass] = field(default_factory=lambda: [])
    cuts: list[Cut] = field(default_factory=lambda: [])
    scaled: Instruction | None = None
    """Where gradients were changed that the next pass has added to."""
    stepped: Place | None = None
    is_cut_off: bool = False
    """Whether the run has ended a loop in it before its time."""


class MicroBatches(Instrument):
    """Notes the passes before each step of the optimizer."""

    name: ClassVar[str] = "micro-batches"

    def __init__(self, run: Run, inputs: dict[str, torch.Tensor]) -> None:
        super().__init__(run)
        self.groups: list[Group] = []
        self.optimizers: set[int] = set()
        self.used_whole: set[str] = set()
        """The inputs of which something else than a part was taken."""
        self.reached: dict[str, int] = {}
        """How far parts of an input were taken, in the whole call."""
        self._inputs = {address_of(tensor): (name, tensor) for name, tensor in inputs.items() if is_plain(tensor)}
        self._group = Group()
        self._pass: Pass | None = None
        self._before: list[tuple[Any, Any, int]] = []
        self._gradients: set[int] = set()
        self._scaled: Instruction | None = None
        self._stopped = run.loops_stopped

    def after_op(self, op: Op, result: Any) -> None:
        """Note what is taken of the inputs, and what scales gradients."""
        if op.name in _SCALES and self._gradients.intersection(map(address_of, filter(is_plain, op.tensors()))):
            self._scaled = self._scaled or op.instruction
        for tensor in op.tensors() if self._inputs and op.phase == "forward" else ():
            name, whole = self._inputs.get(address_of(tensor), ("", tensor)) if is_plain(tensor) else ("", tensor)
            if name and tensor.shape[:1] == whole.shape[:1]:
                self._taken(op, name, len(whole))

    def _taken(self, op: Op, name: str, count: int) -> None:
        if op.name != "aten::slice" or op.argument("dim") != 0 or op.argument("step") != 1:
            self.used_whole.add(name)
            return
        start, end, _ = slice(op.argument("start"), op.argument("end")).indices(count)
        self.reached[name] = max(end, self.reached.get(name, 0))
        self._group.cuts.append(Cut(name, start, end, count, op.instruction))

    def backward_begins(self, roots: tuple[Any, ...], place: Place | None) -> None:
        """Find the means in the loss, and hear how much of it each is."""
        self._pass = None
        root = roots[0] if len(roots) == 1 else None
        if place is None or root is None or root.numel() != 1 or root.grad_fn is None:
            return
        leaves = [leaf for _, leaf in zip(range(_LEAVES), graphs.leaves(roots))]
        self._before = [(leaf, leaf.grad, leaf.grad._version if leaf.grad is not None else 0) for leaf in leaves]
        if not any(gradient is not None and _is_kept(gradient) for _, gradient, _ in self._before):
            self._forget()
        self._pass = Pass(place, list(self._means(root.grad_fn)))

    def _forget(self) -> None:
        """What was added up so far is cleared: the group begins here."""
        if self._group.passes:
            self._group = Group()
        self._scaled = None

    def _means(self, node: Any) -> Iterator[Mean]:
        """Yield the means that a loss is made of: all between them and the loss has one element."""
        waiting, seen = [node], {node}
        while waiting:
            node = waiting.pop()
            over = _mean_over(node)
            if over is not None:
                mean = Mean(self.run.lines.of_node(node), *over)
                node.register_prehook(partial(_weigh, mean))
                yield mean
                continue
            below = {n for n, _ in node.next_functions if n is not None and n not in seen and _is_single(n)}
            seen |= below
            waiting += below

    def backward_ends(self, error: BaseException | None) -> None:
        """Take the pass for one of the group, if it has added to gradients."""
        passed, self._pass = self._pass, None
        added = any(leaf.grad is not old or (old is not None and old._version != v) for leaf, old, v in self._before)
        if passed is None or error is not None or not added:
            return
        group = self._group
        if self._scaled is not None and group.passes and group.passes[-1].place == passed.place:
            group.scaled = group.scaled or self._scaled
        self._scaled = None
        group.passes.append(passed)
        self._gradients = {address_of(leaf.grad) for leaf, _, _ in self._before if is_plain(leaf.grad)}

    def step_begins(self, optimizer: Any, place: Place | None) -> None:
        """End the group."""
        self.optimizers.add(id(optimizer))
        self._group.stepped = place
        self.end()

    def end(self) -> None:
        """Take what was heard since the last step for a group: of the last, the caller may take the step."""
        self._group.is_cut_off = self.run.loops_stopped != self._stopped
        self._stopped = self.run.loops_stopped
        self.groups.append(self._group)
        self._group, self._scaled, self._gradients = Group(), None, set()


def _mean_over(node: Any) -> tuple[float, float, bool] | None:
    """Return what a node's mean is over, its elements, and whether classes have weights; None where it is none."""
    reduction = getattr(node, "_saved_reduction", None)
    if reduction is not None and reduction != _MEAN:
        return None
    if hasattr(node, "_saved_total_weight"):
        total, target = node._saved_total_weight, node._saved_target
        return (_number(total), float(target.numel()), node._saved_weight is not None) if is_readable(total) else None
    if reduction is not None and hasattr(node, "_saved_self"):
        count = float(node._saved_self.numel())
        return count, count, False
    if node.name() == "MeanBackward0":
        count = 1.0
        for size in node._saved_self_sym_sizes:
            count *= size
        return count, count, False
    return None


def _is_single(node: Any) -> bool:
    """Say whether what a node has computed is of one element."""
    shapes = [tuple(made.shape) for made in node._input_metadata]
    return shapes in ([()], [(1,)]) and getattr(node, "variable", None) is None


def _weigh(mean: Mean, given: tuple[Any, ...]) -> None:
    if given and given[0] is not None and is_readable(given[0]):
        mean.share = _number(given[0])


def _is_kept(gradient: torch.Tensor) -> bool:
    """Say whether a gradient is still there when the next pass begins: not all zeros."""
    return not is_readable(gradient) or bool(at_hand(gradient).detach().count_nonzero())


def _number(tensor: torch.Tensor) -> float:
    return float(at_hand(tensor).detach().reshape(-1)[0])
