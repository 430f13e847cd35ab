"""The batch of a module's inputs: told by a size that nothing else has, and by layers for which it is the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from drygrad.worker.experiments.bench import Bench, Inputs
from drygrad.worker.experiments.relation import NotTried
from drygrad.worker.experiments.trace import Step, Trace
from drygrad.worker.probe import tensors

_SIZES = (5, 7, 11, 13)
_OF_IMAGES = ("batch_norm", "group_norm", "instance_norm", "pool1d", "pool2d", "pool3d")
_CONVOLUTIONS = frozenset({"aten::convolution", "aten::conv1d", "aten::conv2d", "aten::conv3d"})
_RECURRENT = ("aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu")

ATTENTIONS = frozenset({"aten::_transformer_encoder_layer_fwd", "aten::_native_multi_head_attention"})
"""What torch's layers come to in evaluation where they are given the batch first, and only there."""


def require_module(given: Inputs) -> None:
    """Raise NotTried where the target is not a module's."""
    if not isinstance(given.owner, torch.nn.Module) or not callable(given.function):
        raise NotTried("it is not the forward of a module")


class Batch:
    """A module in evaluation, and inputs whose first axis has a size that nothing else has.

    Without ``enlarge`` the inputs are as they were: the size may be one that other axes have, too.
    """

    def __init__(self, bench: Bench, *, enlarge: bool = True) -> None:
        given = bench.inputs()
        require_module(given)
        self.bench = bench
        self.module: torch.nn.Module = given.owner.eval()
        common = _first_axis(given)
        self.size = _free_size(given, self.module) if enlarge else common
        self.given = enlarged(given, self.size) if enlarge else given

    def traced(self, given: Inputs) -> tuple[Any, Trace]:
        """Call the module and return what it returns, and computes. Raises NotTried where it fails."""
        trace = Trace(self.bench.run, self.size)
        self.bench.listen(trace)
        with torch.no_grad():
            returned = self.bench.must_pass(given)
        if trace.full:
            raise NotTried("it computes more than can be kept for a comparison")
        return returned, trace

    def results(self, returned: Any) -> list[torch.Tensor]:
        """Return the results that have the batch in front. Raises NotTried where there is none."""
        found = [t for t in tensors(returned) if t.dim() and t.shape[0] == self.size]
        if not found:
            raise NotTried("no result has the batch in front")
        return found

    def require(self, trace: Trace) -> None:
        """Raise NotTried where no layer says that the first axis of the inputs is a batch, or one uses all of it."""
        if any(self._uses_statistics(step) for step in trace.steps):
            raise NotTried("a batch norm uses the statistics of its batch in evaluation, too")
        if next(self._evidence(trace), None) is not True:
            raise NotTried("nothing says that the first axis of its inputs is a batch")

    def _uses_statistics(self, step: Step) -> bool:
        """Say whether a batch norm in training mode works on the batch, not as an instance norm on each sample."""
        whole = bool(step.shapes) and step.shapes[0][:1] == (self.size,)
        return whole and "batch_norm" in step.name and True in step.arguments

    def _evidence(self, trace: Trace) -> Iterator[bool]:
        """Yield, for each layer that tells, whether the axis of that size is its batch."""
        for step in trace.steps:
            shape = step.shapes[0] if step.shapes else ()
            if self.size not in shape:
                continue
            position = _batch_axis(step, shape)
            if position is not None:
                yield shape[position] == self.size

    def others(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Take of a result what belongs to all samples but the first; None of one where samples cannot be told."""
        return self._rows(tensor, 1, self.size - 1)

    def first(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Take of a result what belongs to the first sample alone; None of one where samples cannot be told."""
        return self._rows(tensor, 0, 1)

    def _rows(self, tensor: torch.Tensor, start: int, count: int) -> torch.Tensor | None:
        axes = [axis for axis, size in enumerate(tensor.shape) if size == self.size]
        for axis in axes:
            tensor = tensor.narrow(axis, start, count)
        return tensor if axes else None


def _batch_axis(step: Step, shape: tuple[int, ...]) -> int | None:
    """Return the axis of the first operand that is, by the definition of a layer, its batch; None of other ones."""
    if step.name in _CONVOLUTIONS:
        return 0 if len(step.shapes) > 1 and len(shape) == len(step.shapes[1]) else None
    if any(part in step.name for part in _OF_IMAGES):
        return 0 if len(shape) >= 3 or "batch_norm" in step.name else None
    if step.name.startswith(_RECURRENT) and len(shape) == 3:
        return 0 if step.arguments and step.arguments[-1] is True else 1
    if "scaled_dot_product" in step.name or (step.name in ATTENTIONS and len(shape) == 3):
        return 0
    return None


def _free_size(given: Inputs, module: torch.nn.Module) -> int:
    """Return a size that no axis of an input or a parameter has, nor any multiple of one."""
    sizes = {size for t in (*given.tensors(), *module.parameters(), *module.buffers()) for size in t.shape}
    free = next((size for size in _SIZES if size not in sizes), None)
    if free is None:
        raise NotTried("its batch cannot be told from its other axes")
    return free


def _first_axis(given: Inputs) -> int:
    """Return the size that the first axes of all inputs have. Raises NotTried where there is none."""
    first = {t.shape[0] for t in given.tensors() if t.dim()}
    if len(first) != 1 or 0 in first:
        raise NotTried("its inputs have no first axis in common")
    return first.pop()


def enlarged(given: Inputs, size: int) -> Inputs:
    """Return the inputs with so many samples."""

    def drawn(tensor: torch.Tensor) -> torch.Tensor:
        return _drawn(tensor, size)

    return mapped(given, drawn)


def mapped(given: Inputs, change: Callable[[torch.Tensor], torch.Tensor]) -> Inputs:
    """Return the inputs with each tensor of at least one axis changed."""

    def of(value: Any) -> Any:
        return change(value) if isinstance(value, torch.Tensor) and value.dim() else value

    positional = [of(value) for value in given.positional]
    named = {name: of(value) for name, value in given.named.items()}
    return Inputs(given.function, given.owner, positional, named, given.names)


def _drawn(tensor: torch.Tensor, size: int) -> torch.Tensor:
    """Return so many samples, made of those that there are: of floats none is quite like another."""
    samples = tensor.detach()[torch.arange(size) % tensor.shape[0]]
    if not samples.is_floating_point():
        return samples
    lam = torch.linspace(0.9, 1.0, size, dtype=samples.dtype, device=samples.device)
    return samples * lam.view(-1, *[1] * (samples.dim() - 1))
