"""The batch of a target: told by a size that nothing else has, and by its text, or by layers that take a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from drygrad.worker.experiments.bench import Bench, Inputs, modules
from drygrad.worker.experiments.relation import NotTried
from drygrad.worker.experiments.trace import Step, Trace
from drygrad.worker.probe import tensors

_SIZES = (5, 7, 11, 13)
_OF_IMAGES = ("batch_norm", "group_norm", "instance_norm", "pool1d", "pool2d", "pool3d")
_CONVOLUTIONS = frozenset({"aten::convolution", "aten::conv1d", "aten::conv2d", "aten::conv3d"})
_RECURRENT = ("aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu")

ATTENTIONS = frozenset({"aten::_transformer_encoder_layer_fwd", "aten::_native_multi_head_attention"})
"""What torch's layers come to in evaluation where they are given the batch first, and only there."""


def require_samples(given: Inputs) -> None:
    """Raise NotTried where nothing could tell samples: the text does not, and there are no layers, or it denies it."""
    if given.samples_axis is None and not isinstance(given.owner, torch.nn.Module):
        raise NotTried("it is not a module's method, and its docstring mentions no batch")
    if given.samples_axis:
        raise NotTried("its docstring says that the first dimension is not the batch")


class Batch:
    """A target, its module in evaluation, and inputs whose first axis has a size that nothing else has.

    Without ``enlarge`` the inputs are as they were: the size may be one that other axes have, too. With ``wide`` all
    numbers have twice the width: little of one sample in another is no rounding then.
    """

    def __init__(self, bench: Bench, *, enlarge: bool = True, wide: bool = False) -> None:
        given = bench.inputs()
        require_samples(given)
        self.bench = bench
        self._wide = wide
        for module in modules(given):
            module.eval()
        self._known = _first_axis(given)
        self.size = _free_size(given) if enlarge else self._known
        self.given = enlarged(given, self.size) if enlarge else given
        self.severity = "info"
        """What is said of a batch that only the text or a loader names: ``require`` asks the layers, too."""
        if wide:
            self.given = widened(self.given)

    def traced(self, given: Inputs) -> tuple[Any, Trace]:
        """Call the target and return what it returns, and computes. Raises NotTried where it fails."""
        trace = Trace(self.bench.run, self.size)
        self.bench.listen(trace)
        usual = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64 if self._wide else usual)
        try:
            with torch.no_grad():
                returned = self.bench.must_pass(given)
        finally:
            torch.set_default_dtype(usual)
        if trace.full:
            raise NotTried("too large to compare")
        return returned, trace

    def results(self, returned: Any) -> list[torch.Tensor]:
        """Return the results that have the batch in front. Raises NotTried where there is none."""
        found = [t for t in tensors(returned) if t.dim() and t.shape[0] == self.size]
        if not found:
            raise NotTried("no result has a leading batch dimension")
        return found

    def require(self, trace: Trace) -> None:
        """Raise NotTried where nothing says that the first axis of the inputs is a batch, or a layer uses all of it."""
        if any(self._uses_statistics(step) for step in trace.steps):
            raise NotTried("a batch norm uses batch statistics in eval mode too")
        if next(self._evidence(trace), None) is True:
            self.severity = "warning"
        elif self.given.samples_axis is None:
            raise NotTried("nothing says that the first dimension of its inputs is a batch")
        elif self._known == 1:
            raise NotTried("its batch has a single sample, and its code may rely on that")

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

    def others(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """Take of a result what belongs to all samples but the first, in each way that it may be laid out in."""
        return [_rows(laid, axes, 1, self.size - 1) for laid, axes in self.layouts(tensor)]

    def first(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """Take of a result what belongs to the first sample alone, in each way that it may be laid out in."""
        return [_rows(laid, axes, 0, 1) for laid, axes in self.layouts(tensor)]

    def layouts(self, tensor: torch.Tensor) -> Iterator[tuple[torch.Tensor, list[int]]]:
        """Yield a result with its axes of samples; where one has merged with another axis, both orders come apart."""
        axes = [axis for axis, size in enumerate(tensor.shape) if size == self.size]
        if axes:
            yield tensor, axes
            return
        merged = next((axis for axis, size in enumerate(tensor.shape) if size and size % self.size == 0), None)
        if merged is not None:
            yield tensor.unflatten(merged, (self.size, -1)), [merged]
            yield tensor.unflatten(merged, (-1, self.size)), [merged + 1]


def _rows(tensor: torch.Tensor, axes: list[int], start: int, count: int) -> torch.Tensor:
    for axis in axes:
        tensor = tensor.narrow(axis, start, count)
    return tensor


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


def _free_size(given: Inputs) -> int:
    """Return a size that no axis of an input or a parameter has, nor, if there is one, any multiple of."""
    state = (tensor for module in modules(given) for tensor in (*torch.nn.Module.parameters(module), *module.buffers()))
    sizes = {size for tensor in (*given.tensors(), *state) for size in tensor.shape if size}
    whole = (size for size in _SIZES if all(other % size for other in sizes))
    free = next(whole, None) or next((size for size in _SIZES if size not in sizes), None)
    if free is None:
        raise NotTried("its batch dimension cannot be told from the others")
    return free


def _first_axis(given: Inputs) -> int:
    """Return the size that the first axes of all inputs have. Raises NotTried where there is none."""
    first = {t.shape[0] for t in given.tensors() if t.dim()}
    if len(first) != 1 or 0 in first:
        raise NotTried("its inputs share no leading dimension")
    return first.pop()


def enlarged(given: Inputs, size: int) -> Inputs:
    """Return the inputs with so many samples."""

    def drawn(tensor: torch.Tensor) -> torch.Tensor:
        return _drawn(tensor, size)

    return mapped(given, drawn)


def widened(given: Inputs) -> Inputs:
    """Return the inputs with numbers of twice the width, and widen those of the modules among them."""
    for module in modules(given):
        module.double()
    return mapped(given, lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)


def mapped(given: Inputs, change: Callable[[torch.Tensor], torch.Tensor]) -> Inputs:
    """Return the inputs with each tensor of at least one axis changed."""

    def of(value: Any) -> Any:
        return change(value) if isinstance(value, torch.Tensor) and value.dim() else value

    positional = [of(value) for value in given.positional]
    named = {name: of(value) for name, value in given.named.items()}
    return replace(given, positional=positional, named=named)


def _drawn(tensor: torch.Tensor, size: int) -> torch.Tensor:
    """Return so many samples, made of those that there are: of floats none is quite like another."""
    samples = tensor.detach()[torch.arange(size) % tensor.shape[0]]
    if not samples.is_floating_point():
        return samples
    lam = torch.linspace(0.9, 1.0, size, dtype=samples.dtype, device=samples.device)
    return samples * lam.view(-1, *[1] * (samples.dim() - 1))
